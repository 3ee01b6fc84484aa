# Runs one script of nginx-tests, whose name it is given, in the folder where they are.
#
# The scripts end lines of HTTP/1.1 with LF alone, which Sluice refuses (docs/internals/smuggling.md), and compare names of fields by case,
# which RFC 9110 section 5.1 gives no meaning: what they send gets CR LF, and names that they read their spelling. Their HTTP/2 clients send no SETTINGS behind the preface,
# which RFC 9113 section 3.4 wants: they get an empty one. It wants that of servers as the first thing, too.
# And they pad what they code by Huffman with up to eight bits, where RFC 7541 section 5.2 allows seven.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use Symbol qw/ qualify_to_ref /;

my %spelling;

# Heads, and the lines around chunks, with CR LF. Bodies stay as they are.
sub crlf {
	my ($in) = @_;
	my $out = '';
	# Behind a header of the PROXY protocol, too.
	$out = $1 if $in =~ s/\A(PROXY [^\x0d\x0a]*\x0d\x0a)//;
	$out = substr($in, 0, 16 + unpack('n', substr($in, 14, 2)), '')
		if $in =~ /\A\x0d\x0a\x0d\x0a\x00\x0d\x0aQUIT\x0a..../s;
	return $out . $in unless $in =~ m!\A(?:HTTP/1|[A-Z]+ [^\x0a]*HTTP/1)!;

	while (length $in) {
		unless ($in =~ s/\A(.*?\x0a\x0d?\x0a)//s) {
			$in =~ s/(?<!\x0d)\x0a/\x0d\x0a/g;
			return $out . $in;
		}
		my $head = $1;
		$head =~ s/(?<!\x0d)\x0a/\x0d\x0a/g;
		$out .= $head;

		if ($head =~ /^Transfer-Encoding:.*chunked/mi) {
			while ($in =~ s/\A([0-9a-f]+[^\x0a]*?)\x0d?\x0a//i) {
				my $size = hex(($1 =~ /([0-9a-f]+)/i)[0]);
				$out .= "$1\x0d\x0a";
				if ($size == 0) {
					$out .= "$1\x0d\x0a" while $in =~ s/\A([^\x0d\x0a]+)\x0d?\x0a//;
				}
				$out .= substr($in, 0, $size, '') if $size <= length $in;
				$out .= "\x0d\x0a" if $in =~ s/\A\x0d?\x0a//;
				last if $size == 0;
			}
			return $out . $in unless $in =~ m!\A[A-Z]+ [^\x0a]*HTTP/1!;
		} elsif ($head =~ m!\AHTTP/1!) {
			return $out . $in unless $in =~ m!\AHTTP/1!;
		} elsif ($head =~ /^Content-Length:\s*(\d+)/mi) {
			$out .= substr($in, 0, $1, '');
		}
	}
	return $out;
}

sub spelled {
	my ($name) = @_;
	return $spelling{lc $name} || join('-', map { ucfirst } split(/-/, $name, -1));
}

sub respelled {
	my ($text) = @_;
	return $text unless defined $text;
	if ($text =~ m!\A(?:HTTP/1|[A-Z]+ [^\x0a]*HTTP/1)!) {
		my ($head, $rest) = $text =~ /\A(.*?\x0a\x0d?\x0a)(.*)\z/s ? ($1, $2) : ($text, '');
		$head =~ s/^([a-z0-9-]+)(?=: )/spelled($1)/gme;
		if ($head =~ /^Transfer-Encoding: chunked/mi && $rest =~ s/(\x0a0\x0d\x0a|\A0\x0d\x0a)(.*?\x0d\x0a\x0d\x0a)\z//s) {
			my ($last, $trailers) = ($1, $2);
			$trailers =~ s/^([a-z0-9-]+)(?=: )/spelled($1)/gme;
			$rest .= $last . $trailers;
		}
		return $head . $rest;
	}
	$text =~ s/\A([a-z0-9-]+)(?=: )/spelled($1)/e unless $text =~ /\A[^\x0a]*\x0a./s;
	return $text;
}

sub line {
	my ($handle) = @_;
	my $line = readline($handle);
	return -S $handle ? respelled($line) : $line;
}

BEGIN {
	*CORE::GLOBAL::sysread = sub (*\$$;$) {
		my ($handle, $into, $length, $offset) = @_;
		$handle = qualify_to_ref($handle, caller) unless ref $handle;
		$offset ||= 0;
		my $count = CORE::sysread($handle, $$into, $length, $offset);
		substr($$into, $offset) = respelled(substr($$into, $offset)) if $count && -S $handle;
		return $count;
	};
}

my $script = shift or die "usage: nginx_script.pl SCRIPT\n";
open my $file, '<', $script or die "Can't open $script: $!\n";
my $text = do { local $/; <$file> };
close $file;

$spelling{lc $1} = $1 while $text =~ /\b([A-Za-z][A-Za-z0-9-]*[A-Z][A-Za-z0-9-]*)\b/g;
$spelling{lc $1} = $1 while $text =~ /\b([A-Z][A-Za-z0-9-]*)(?=:|\s\$)/g;
$text =~ s/(print\s+\$\w+\s+|->(?:print|write)\(|=\s*)(<<(["']?)(\w+)\3)/$1main::crlf($2)/g;

$text =~ s/while\s*\(<(\$\w+)>\)/while (defined(\$_ = main::line($1)))/g;
$text =~ s/=\s*<(\$\w+)>/= main::line($1)/g;
# Servers of HTTP/2 that send SETTINGS only when they have a request: at once.
if ($text =~ s/(if \(!\$extra\{reuse\}\) \{\s*)\$c->h2_settings\(0\);/$1/) {
	$text =~ s/(\$c = Test::Nginx::HTTP2->new\(1, socket => \$client,\s*pure => 1, preface => ""\) or return;)/$1 \$c->h2_settings(0);/;
}

$0 = abs_path($script);
unshift @INC, 'lib';
require Test::Nginx;
require Test::Nginx::HTTP2;
{
	no warnings qw/ redefine once /;
	my $write = \&Test::Nginx::HTTP2::raw_write;
	*Test::Nginx::HTTP2::raw_write = sub {
		my ($self, $message) = @_;
		$message .= "\0\0\0\4\0\0\0\0\0" if $message eq "PRI * HTTP/2.0\x0d\x0a\x0d\x0aSM\x0d\x0a\x0d\x0a";
		return $write->($self, $message);
	};
	my $new = \&Test::Nginx::HTTP2::new;
	*Test::Nginx::HTTP2::new = sub {
		my ($class, $port, %extra) = @_;
		my $self = $new->(@_);
		# The acknowledgement of those SETTINGS, whose flag looks like the end of a stream.
		$self->read(all => [{ type => 'SETTINGS' }], wait => 0.5)
			unless !$self || $extra{pure} || defined $extra{preface};
		return $self;
	};
	*Test::Nginx::HTTP2::huff = sub {
		my $code = Test::Nginx::HTTP2::huff_code();
		my $bits = join '', map { $code->{$_} } split //, $_[0];
		return pack('B*', $bits . '1' x (-length($bits) % 8));
	};
	my $end = \&Test::Nginx::http_end;
	*Test::Nginx::http_end = sub ($;%) { return respelled($end->(@_)); };
	my $start = \&Test::Nginx::http_start;
	my $line = \&IO::Handle::getline;
	*IO::Handle::getline = sub { return respelled(scalar $line->(@_)); };
	*Test::Nginx::http_start = sub ($;%) { my ($request, %extra) = @_; return $start->(crlf($request), %extra); };
}

eval "no strict; no warnings; package main;\n#line 1 \"$script\"\n$text\n;1" or die $@;
