# What Perl's Net::Stomp does with a broker: prints "ok" and a name for each thing that
# works. Arguments: host and port.
use strict;
use warnings;
use Net::Stomp;

my ($host, $port) = @ARGV;

sub check {
    my ($ok, $name) = @_;
    print(($ok ? "ok" : "not ok"), " $name\n");
}

my $c = Net::Stomp->new({ hostname => $host, port => $port });
my $hello = $c->connect({ login => 'perl', passcode => 'secret' });
check($hello->command eq 'CONNECTED', 'connect');

for my $body ("one", "two\0binary", "") {
    check($c->send_with_receipt({ destination => '/queue/perl', body => $body, bytes_message => 1, colour => 'dark:red' }),
        'send with receipt ' . length $body);
}
$c->subscribe({ destination => '/queue/perl', ack => 'client', 'activemq.prefetchSize' => 1 });
for my $body ("one", "two\0binary", "") {
    my $f = $c->receive_frame({ timeout => 10 });
    check($f && $f->command eq 'MESSAGE' && $f->body eq $body && $f->headers->{colour} eq 'dark:red',
        'receive ' . length $body);
    $c->ack({ frame => $f });
}
check($c->send_transactional({ destination => '/queue/perl', body => 'in a transaction' }), 'transaction');
my $f = $c->receive_frame({ timeout => 10 });
check($f && $f->body eq 'in a transaction', 'receive from a transaction');
$c->disconnect;

# The last one was not acknowledged: the next client gets it again.
my $d = Net::Stomp->new({ hostname => $host, port => $port });
$d->connect({});
$d->subscribe({ destination => '/queue/perl' });
$f = $d->receive_frame({ timeout => 10 });
check($f && $f->body eq 'in a transaction' && $f->headers->{redelivered} eq 'true', 'redelivery');
$d->disconnect;
