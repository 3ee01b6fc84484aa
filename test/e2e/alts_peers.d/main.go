// ALTS by grpc-go for the tests of the proxy: a fake handshaker service, a server and a client.
//
//	peers handshaker    prints each finished handshake as a line of JSON
//	peers grpc-server   runs until it is killed
//	peers grpc-client   prints what it saw as a line of JSON; fails with a message
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

var (
	listenAt = flag.String("listen", "127.0.0.1:0", "be a server at this `address`; the one it got is printed")
	plain    = flag.Bool("plain", false, "without ALTS")
	service  = flag.String("handshaker", "", "`address` of the service that does the handshakes")

	target      = flag.String("target", "", "grpc-client: `address` of the server")
	targets     = flag.String("target-identity", "", "grpc-client: whom it wants to connect to, with commas")
	cases       = flag.String("case", "unary", "grpc-client: unary, streaming, large, idle, crowd, hold, with commas")
	connections = flag.Int("connections", 50, "crowd: so many at once; more than 100 would wait for each other in grpc-go")
	quiet       = flag.Duration("quiet", 3*time.Second, "idle: between two calls")
	seconds     = flag.Int("seconds", 60, "how long a case may take")

	dialect        = flag.String("dialect", "both", "handshaker: whose fake it is like: go, core; both understands either and speaks as go's")
	clientIdentity = flag.String("client-identity", "client@baz.com", "handshaker: who every client is")
	serverIdentity = flag.String("server-identity", "server@bar.com", "handshaker: who every server is")
	maxFrameSize   = flag.Uint("max-frame-size", 0, "handshaker: what each peer is reported to take; 0 leaves it out, 16384 in core's dialect")
	keyBytes       = flag.Int("key-bytes", 0, "handshaker: of the key; 0 means as many as that fake gives")
	streams        = flag.Uint("streams", 0, "handshaker: so many handshakes at once over a connection; 0 means any number")
	check          = flag.Bool("check", false, "handshaker: look whether the server is whom the client wants, as the fakes do not")
	keep           = flag.Bool("keep", false, "handshaker: consume whole messages only; else a part is consumed, too")
	delay          = flag.Duration("delay", 0, "handshaker: before each response")
	lie            = flag.String("lie", "", "handshaker: short_key, no_result_protocol, no_identity, old_versions, bad_consumed, status, silent, die")
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func listen() net.Listener {
	listener, err := net.Listen("tcp", *listenAt)
	fail(err)
	fmt.Println(listener.Addr())
	return listener
}

// Prints a whole line at once. Any goroutine may call it.
func printJSON(what any) {
	line, err := json.Marshal(what)
	fail(err)
	os.Stdout.Write(append(line, '\n'))
}

func list(words string) []string {
	return strings.FieldsFunc(words, func(c rune) bool { return c == ',' })
}

func main() {
	roles := map[string]func(){"handshaker": runHandshaker, "grpc-server": runServer, "grpc-client": runClient}
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		fail(fmt.Errorf("usage: %s handshaker|grpc-server|grpc-client [options]", os.Args[0]))
	}
	fail(flag.CommandLine.Parse(os.Args[2:]))
	roles[os.Args[1]]()
}
