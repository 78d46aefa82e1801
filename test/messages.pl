# messages.pl - reads the messages that src/ and sql/ can raise and holds them against
# PostgreSQL's style: prints "ok NAME", or the messages that break a rule and "not ok NAME".
# messages.pl --list prints them all: level, SQLSTATE, text, detail, hint.
use strict;
use warnings;

use FindBin;
chdir "$FindBin::Bin/.." or die;

my @messages;	# {file, line, level, code, text, detail, hint}

# The C strings of an expression, one after the other; formats stay as they are.
sub strings
{
	my ($text) = @_;
	return undef unless defined $text;
	my $all = join '', $text =~ /"((?:[^"\\]|\\.)*)"/g;
	$all =~ s/\\"/"/g;
	return $all;
}

# What is between the parenthesis at the start and its partner.
sub inside
{
	my ($text) = @_;
	return $text =~ /^(\((?:[^()"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|(?1))*\))/ ? $1 : die substr($text, 0, 100);
}

# The argument of a call of that name, all of its strings; where there are several calls (by a
# condition), the first.
sub argument
{
	my ($call, $name) = @_;
	return $call =~ /\b$name\s*(\(.*)/s ? inside($1) : undef;
}

sub read_c
{
	my ($file) = @_;
	open(my $handle, '<', $file) or die "$file: $!";
	my $source = do { local $/; <$handle> };
	# comments go, lines stay
	$source =~ s{("(?:[^"\\]|\\.)*")|(/\*.*?\*/)}{defined $1 ? $1 : "\n" x ($2 =~ tr/\n//)}gse;
	while ($source =~ /\b(ereport|grn_fail)\s*(?=\()/g)
	{
		my $call = inside(substr($source, pos $source));
		my %m = (file => $file, line => 1 + (substr($source, 0, pos $source) =~ tr/\n//));
		if ($1 eq 'grn_fail')
		{
			next if $call =~ /^\(GrnFailure/;
			# (failure, sqlstate, hint, format, ...)
			my ($code, $rest) = $call =~ /^\(\s*[^,]+,\s*("\w{5}"|\w+)\s*,(.*)\)$/s or next;
			my ($hint, $format) = $rest =~ /^\s*((?:"(?:[^"\\]|\\.)*"\s*)+|[^,"]+),(.*)/s;
			@m{qw(level code hint text)} = ('ERROR', $code =~ tr/"//dr, strings($hint), strings($format));
			$m{hint} = '(given)' if $hint !~ /"/;
		}
		else
		{
			($m{level}) = $call =~ /^\(\s*(\w+)/;
			next if $call =~ /errmsg_internal/;
			my $code = argument($call, 'errcode') // ($call =~ /errcode_for_file_access/ ? '(by errno)' : undef);
			$m{code} = $code =~ s/^\(|\)$|ERRCODE_//gr if defined $code;
			my $text = argument($call, 'errmsg') // argument($call, 'errmsg_plural');
			$m{text} = strings($text);
			$m{detail} = strings(argument($call, 'errdetail'));
			$m{hint} = strings(argument($call, 'errhint'));
		}
		push @messages, \%m;
	}
}

sub read_sql
{
	my ($file) = @_;
	open(my $handle, '<', $file) or die "$file: $!";
	my $source = do { local $/; <$handle> };
	while ($source =~ /\bRAISE (EXCEPTION|NOTICE) '((?:[^']|'')*)'([^;]*);/g)
	{
		my %m = (file => $file, line => 1 + (substr($source, 0, pos $source) =~ tr/\n//),
			level => $1 eq 'EXCEPTION' ? 'ERROR' : $1, text => $2);
		my $using = $3;
		$m{text} =~ s/%/%s/g;
		($m{code}) = $using =~ /ERRCODE = '(\w+)'/;
		($m{hint}) = $using =~ /HINT = '((?:[^']|'')*)'/;
		push @messages, \%m;
	}
}

read_c($_) for sort split /\n/, `find src/am src/builder -name '*.c'`;
read_sql($_) for glob 'sql/*.sql src/*/*.sql';

if (@ARGV && $ARGV[0] eq '--list')
{
	for my $m (@messages)
	{
		printf "%s:%d\t%s %s\t%s\n", $m->{file}, $m->{line}, $m->{level}, $m->{code} // '', $m->{text} // '';
		print "\tDETAIL\t$m->{detail}\n" if defined $m->{detail};
		print "\tHINT\t$m->{hint}\n" if defined $m->{hint};
	}
	exit 0;
}

my $status = 0;

# rule NAME, TEST: the messages for which it is true break the rule.
sub rule
{
	my ($name, $breaks) = @_;
	my @found = grep { $breaks->($_) } @messages;
	print "# $_->{file}:$_->{line}: " . join(' / ', grep { defined } @$_{qw(code text detail hint)}) . "\n"
	  for @found;
	print @found ? "not ok $name\n" : "ok $name\n";
	$status = 1 if @found;
}

my $sentence = sub { !defined $_[0] || $_[0] eq '' || $_[0] eq '(given)' || $_[0] =~ /^(%s$|("|%|[A-Z]|\w+\(\)|grnnd).*[.?](%s)?$)/s };

rule('there are messages', sub { @messages < 50 });
rule('errors have a SQLSTATE', sub { $_[0]{level} eq 'ERROR' && !defined $_[0]{code} });
rule('errors say what to do, or why', sub
{
	my ($m) = @_;
	$m->{level} eq 'ERROR' && !defined $m->{hint} && !defined $m->{detail} &&
	  # of these the message itself says it
	  ($m->{code} // '') !~ /INSUFFICIENT_PRIVILEGE|undefined_\w+|invalid_schema_name|UNDEFINED_|by errno/ &&
	  # of these the operating system does
	  $m->{text} !~ /%m$/;
});
rule('a message begins in lower case and ends without a full stop', sub
{
	my ($m) = @_;
	defined $m->{text} && $m->{text} =~ /^[A-Z][a-z]+ |[.!]$/ && $m->{text} !~ /\.\.\.$/;
});
rule('details and hints are sentences', sub { !$sentence->($_[0]{detail}) || !$sentence->($_[0]{hint}) });
rule('messages are one line', sub { grep { defined && /\\n/ } @{ $_[0] }{qw(text detail hint)} });
rule('names of settings and objects, and no contractions', sub
{
	grep { defined && /\b(can't|don't|isn't|won't|bad|illegal|unable to|failed to)\b/i } @{ $_[0] }{qw(text detail hint)};
});
exit $status;
