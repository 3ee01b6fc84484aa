// gRPC by grpc-go for the tests of the proxy: the server and the cases of its interoperability test, and our own cases
// with more calls, longer calls and failing calls.
//
//	grpc server    prints its address, and serves until it is killed
//	grpc client    prints the name of each case that passed, or what it saw as a line of JSON; fails with a message
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/status"
)

var (
	listenAt    = flag.String("listen", "127.0.0.1:0", "server: `address`")
	certificate = flag.String("certificate", "", "server: PEM `file`; with it TLS is spoken")
	key         = flag.String("key", "", "server: PEM `file`")

	healthOf = flag.String("health", "", "server: `service` that has a health, which SIGUSR1 turns")

	failing = flag.Int("failing", 0, "server: so many calls end with UNAVAILABLE before anything else")

	maxAge = flag.Duration("max-age", 0, "server: of a connection; then it gets GOAWAY")

	target      = flag.String("target", "", "client: `address` of the server")
	authorities = flag.String("ca", "", "client: PEM `file` of whom to believe; with it TLS is spoken")
	cases       = flag.String("case", "empty_unary", "client: which, with commas")
	count       = flag.Int("count", 1000, "client: calls of streams, crowd and held, at once")
	connections = flag.Int("connections", 1, "client: of held")
	quiet       = flag.Duration("quiet", 30*time.Second, "client: of idle")
	length      = flag.Duration("length", 3*time.Second, "client: of steady and held")
	seconds     = flag.Int("seconds", 60, "client: how long a case may take")
)

const maxMessage = 64 << 20

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printJSON(what any) {
	line, err := json.Marshal(what)
	check(err)
	fmt.Println(string(line))
}

func main() {
	roles := map[string]func(){"server": serve, "client": runCases}
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		check(fmt.Errorf("usage: %s server|client [options]", os.Args[0]))
	}
	check(flag.CommandLine.Parse(os.Args[2:]))
	roles[os.Args[1]]()
}

func serve() {
	options := []grpc.ServerOption{
		orca.CallMetricsServerOption(nil), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		// A client that pings more often gets GOAWAY with "too_many_pings".
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: false}),
	}
	if *maxAge > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: *maxAge}))
	}
	if *certificate != "" {
		tls, err := credentials.NewServerTLSFromFile(*certificate, *key)
		check(err)
		options = append(options, grpc.Creds(tls))
	}
	if *failing > 0 {
		options = append(options, grpc.UnaryInterceptor(unavailableAtFirst(*failing)))
	}
	server := grpc.NewServer(options...)
	grpc_testing.RegisterTestServiceServer(server, interop.NewTestServer())
	if *healthOf != "" {
		serveHealth(server, *healthOf)
	}
	listener, err := net.Listen("tcp", *listenAt)
	check(err)
	fmt.Println(listener.Addr())
	check(server.Serve(listener))
}

func unavailableAtFirst(calls int) grpc.UnaryServerInterceptor {
	var seen atomic.Int64
	return func(ctx context.Context, call any, _ *grpc.UnaryServerInfo, serve grpc.UnaryHandler) (any, error) {
		if seen.Add(1) <= int64(calls) {
			return nil, status.Error(codes.Unavailable, "not yet")
		}
		return serve(ctx, call)
	}
}

func dial(options ...grpc.DialOption) *grpc.ClientConn {
	secure := insecure.NewCredentials()
	if *authorities != "" {
		pem, err := os.ReadFile(*authorities)
		check(err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		secure = credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "localhost"})
	}
	conn, err := grpc.NewClient("passthrough:///"+*target, append(options, grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		// grpc-go retries what a server has not begun to process; here the test must see the failure.
		grpc.WithDisableRetry(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))...)
	check(err)
	return conn
}

func names() []string {
	return strings.FieldsFunc(*cases, func(c rune) bool { return c == ',' })
}
