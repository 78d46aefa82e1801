# comments.pl - measures how often the comments of src/ and cuda/ point at a noun instead of
# naming the noun: prints "ok NAME", or the rooms over the limit and "not ok NAME".
# comments.pl --list [PATH] prints each sentence that has too many pointing words.
use strict;
use warnings;

use FindBin;
chdir "$FindBin::Bin/.." or die;

my $most_share = 6.0;	# percent of the words of a room's comments

my %points = map { $_ => 1 } qw(it its that those these this them they them which what such so
	there then one ones others other else where whose);

# The comments of a C source; line comments below each other are one comment.
sub comments
{
	my ($source) = @_;
	my @found;

	while ($source =~ m{(/\*.*?\*/|//[^\n]*(?:\n[ \t]*//[^\n]*)*)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'}gs)
	{
		next unless defined $1;
		my ($text, $start) = ($1, $-[0]);
		$text =~ s{^[ \t]*(?:/\*+|\*+/|\*|//)|\*+/}{ }gm;
		push @found, [ $text, 1 + (substr($source, 0, $start) =~ tr/\n//) ];
	}
	return @found;
}

sub count
{
	my @words = $_[0] =~ /[A-Za-z_][A-Za-z_0-9']*/g;
	return (scalar @words, scalar grep { $points{ lc $_ } } @words);
}

my (%words, %pointing, %heavy);

my $list = @ARGV && $ARGV[0] eq '--list';
my @paths = $list && @ARGV > 1 ? @ARGV[ 1 .. $#ARGV ] : qw(src cuda);
chomp(my @files = sort `find @paths -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'`);
for my $file (@files)
{
	my ($room) = $file =~ m{^(.*)/};
	open(my $handle, '<', $file) or die "$file: $!";
	my $source = do { local $/; <$handle> };
	for my $comment (comments($source))
	{
		my ($text, $line) = @$comment;
		my ($words, $pointing) = count($text);
		$words{$room} += $words;
		$pointing{$room} += $pointing;
		for my $sentence (split /(?<=[.?!])\s+|\n\s*\n/, $text)
		{
			($words, $pointing) = count($sentence);
			next unless $words >= 8 && $pointing > $words / 4;
			$heavy{$room}++;
			next unless $list;
			$sentence =~ s/\s+/ /g;
			print "$file:$line: $sentence\n";
		}
	}
}
exit 0 if $list;

my (@share, @sentences);
for my $room (sort keys %words)
{
	my ($share, $sentences) = (100 * $pointing{$room} / ($words{$room} || 1), $heavy{$room} || 0);

	push @share, sprintf('# %s: %.2f%% of %d words, limit %.1f%%', $room, $share, $words{$room}, $most_share)
	  if $share > $most_share;
	push @sentences, "# $room: $sentences (comments.pl --list $room)" if $sentences > 0;
}
print "$_\n" for @share;
print @share ? 'not ok' : 'ok', " comments name their nouns\n";
print "$_\n" for @sentences;
print @sentences ? 'not ok' : 'ok', " no sentence of a comment has over a quarter of pointing words\n";
exit(@share || @sentences ? 1 : 0);
