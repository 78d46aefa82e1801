#!/usr/bin/perl
# format.pl FILE TYPES OPTION... - prints a C file as pg_bsd_indent indents it with these
# options, but for what that gets wrong.  TYPES is a file of the names of types.  test/format.sh
# calls this.
use strict;
use warnings;
use File::Temp qw(tempfile);

my ($path, $types, @options) = @ARGV;

# What brackets do not count in.
my $quoted = qr{"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|/\*.*?\*/|//[^\n]*}s;

# brackets(TEXT, START): offsets of the bracket at START, of those within and of the one that
# closes it; an empty list where nothing does.
sub brackets
{
	my ($text, $start) = @_;
	my $depth = 0;
	my @found;

	pos($text) = $start;
	while ($text =~ /\G[^"'\/(){}\[\]]*(?:$quoted|([(\[{])|([)\]}])|\/)/gc)
	{
		next unless defined $1 || defined $2;
		push @found, $+[0] - 1;
		$depth += defined $1 ? 1 : -1;
		return @found if $depth == 0;
	}
	return ();
}

# pg_bsd_indent takes the brace of a compound literal for that of a block.  So "(Type) {...}"
# becomes the call of a function as long, "L00001(...)", whose number tells what it was: the
# type and the brackets.  Those in macros stay, for pg_bsd_indent leaves macros alone.
sub hide_literals
{
	my ($text, $hidden) = @_;
	my $from = 0;

	while (1)
	{
		pos($text) = $from;
		last unless $text =~ /(?<![\w)])\((?:const )?(?:struct )?\w+(?: \*+)?(?:\[\w*\])*\) ?(?=\{)/g;
		my ($start, $open) = ($-[0], $+[0]);
		my $margin = rindex($text, "\n", $start) + 1;
		my @at = brackets($text, $open);

		$from = $open;
		next if !@at || substr($text, $margin, $start - $margin) =~ /^\s*#|\/\*/;
		next if substr($text, $margin) =~ /\A.*\\\n/;
		push @$hidden, [substr($text, $start, $open - $start), map { substr($text, $_, 1) } @at];
		substr($text, $_, 1) =~ tr/{}/()/ for @at;
		substr($text, $start, $open - $start) = sprintf('L%0*d', $open - $start - 1, $#$hidden);
	}
	return $text;
}

# pg_bsd_indent would indent all that the brackets of extern "C" hold.
sub hide_extern
{
	my ($text) = @_;

	$text =~ s/^(#ifdef __cplusplus\n)(extern "C" \{|\})$/$1 . ($2 eq '}' ? 'C_ends;' : 'C_begins;')/gem;
	return $text;
}

sub show_extern
{
	my ($text) = @_;

	$text =~ s/^C_begins;$/extern "C" {/gm;
	$text =~ s/^C_ends;$/}/gm;
	return $text;
}

sub show_literals
{
	my ($text, $hidden) = @_;

	while ($text =~ /\bL(0\d+)(?=\()/)
	{
		my ($start, $open) = ($-[0], $+[0]);
		my ($type, @kinds) = @{$hidden->[$1]};

		substr($text, $_, 1) = shift @kinds for brackets($text, $open);
		substr($text, $start, $open - $start) = $type;
	}
	return $text;
}

# The column at which a line's text begins.
sub depth
{
	my ($line) = @_;

	$line =~ /^(\t*)( *)/;
	return 4 * length($1) + length($2);
}

# pg_bsd_indent indents the lines that go on with a statement, but not those that go on with a
# declaration.  Here those of an initializer get a tab where they begin in no bracket or in a
# brace; those that begin in parentheses move with the line that opened these.
sub indent_initializers
{
	my @lines = split /\n/, $_[0], -1;
	my @open;					# brackets now open: [bracket, whether its line was moved]
	my $first;					# column of the declaration; undef between them

	for my $line (@lines)
	{
		my $move = 0;

		if (!defined $first)
		{
			next unless $line =~ /^(?:\t+|static |const )[A-Za-z_][\w \t]*[ \t*]\w+(?:\[[^\]]*\])* = /;
			next if $line =~ /\\$/;		# of a macro
			@open = ();
			$first = depth($line);
		}
		elsif ($line =~ /^\s*(?:$|#|\/\*)/)
		{
			next;
		}
		elsif (@open && $open[-1][0] ne '{')
		{
			$move = $open[-1][1];
		}
		elsif ($line !~ /^\s*\}/)
		{
			$move = depth($line) <= $first;
		}
		$line = "\t$line" if $move;
		(my $bare = $line) =~ s/$quoted|\/\*.*//g;
		while ($bare =~ /([(\[{])|([)\]}])/g)
		{
			push @open, [$1, $move] if defined $1;
			pop @open if defined $2;
		}
		undef $first if !@open && $bare =~ /;\s*$/;
	}
	return join "\n", @lines;
}

# The text without spaces and comments.
sub bare
{
	my ($text) = @_;

	$text =~ s{/\*.*?\*/|\s+}{}gs;
	return $text;
}

open my $file, '<', $path or die "$path: $!\n";
my $given = do { local $/; <$file> };
my @hidden;
my ($to, $name) = tempfile(UNLINK => 1);
print $to hide_extern(hide_literals($given, \@hidden));
close $to or die "$name: $!\n";

my $text = qx{pg_bsd_indent @options -U'$types' <'$name' 2>&1};
die "$path: pg_bsd_indent failed\n", $text =~ /^(.*(?:INDENT|Command line).*\n)/mg
	if $? != 0 || $text =~ m{/\*\*INDENT\*\*};

# the type of a function, on a line of its own
$text =~ s/^([A-Za-z][\w ]*?)[ \t]+(\*+)$/$1 $2/mg;
# designated initializers
$text =~ s/,(?=\.[a-z_][\w.\[\]]* = )/, /g;
# text is a name of variables here, and is no type but for one
$text =~ s/(?<=[(,])( ?)text \* (?=\w+[,)])/$1text */g;
$text =~ s/(\+\+|--)\* ?\(/$1*(/g;
$text = show_extern(show_literals(indent_initializers($text), \@hidden));
die "$path: formatting would change more than spaces and comments\n"
	if bare($given) ne bare($text);
print $text;
