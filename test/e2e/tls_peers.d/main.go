// A TLS client or server by Go's crypto/tls for the tests of the proxy; also without TLS. It prints the outcome of each
// connection as a line of JSON.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

var (
	listenAt      = flag.String("listen", "", "be a server at this `address`, until killed")
	connectTo     = flag.String("connect", "", "be a client of this `address`")
	connections   = flag.Int("connections", 1, "how many a client makes, one after another, with one cache of sessions")
	seconds       = flag.Int("seconds", 60, "how long a connection may take")
	plain         = flag.Bool("plain", false, "without TLS")
	authorities   = flag.String("ca", "", "PEM `file` of whom to believe; a server then demands certificates")
	certificate   = flag.String("certificate", "", "PEM `file`")
	key           = flag.String("key", "", "PEM `file`")
	name          = flag.String("name", "localhost", "whom the client wants to connect to")
	version       = flag.String("version", "", "1.2 or 1.3; by default both")
	group         = flag.String("group", "", "the only one that is used")
	cipherSuite   = flag.String("cipher", "", "the only one of TLS 1.2 that is used")
	alpn          = flag.String("alpn", "", "protocols, with commas")
	do            = flag.String("do", "stream", "what is done with a connection: stream, sizes, updates")
	sendBytes     = flag.Int64("send", 0, "stream: bytes to send")
	pieceBytes    = flag.Int("pieces", 0, "stream: each write has from 1 to so many bytes; 0 means 64 KiB")
	afterEnd      = flag.Bool("after_end", false, "stream: send only when the peer has ended its own")
	step          = flag.Int("step", 1, "sizes: every so many-th size")
	paddings      = flag.String("paddings", "none", "sizes: none, one, random, full, with commas")
	updates       = flag.Int("updates", 1, "updates: so many in a row")
	rounds        = flag.Int("rounds", 1, "updates: so many rows, a record of data behind each")
	requestUpdate = flag.Bool("request", false, "updates: each requests one")
)

// The outcome of a connection.
type report struct {
	Version, Cipher, Protocol, Peer string
	Resumed                         bool
	SentBytes, ReceivedBytes        int64
	SentHash, ReceivedHash          string
	// For raw records:
	Alert           int // The last alert, 0 for close_notify.
	UpdatesSent     int
	UpdatesReceived int
	Error           string
}

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func configuration() *tls.Config {
	config := &tls.Config{ServerName: *name, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	if *authorities != "" {
		pem, err := os.ReadFile(*authorities)
		check(err)
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(pem)
		config.ClientCAs, config.ClientAuth = config.RootCAs, tls.RequireAndVerifyClientCert
	}
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *key)
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	versions := map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}
	config.MinVersion, config.MaxVersion = versions[*version], versions[*version]
	if *group != "" {
		groups := map[string]tls.CurveID{"X25519": tls.X25519, "P-256": tls.CurveP256, "P-384": tls.CurveP384,
			"X25519MLKEM768": tls.X25519MLKEM768}
		config.CurvePreferences = []tls.CurveID{groups[*group]}
	}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if suite.Name == *cipherSuite {
			config.CipherSuites = []uint16{suite.ID}
		}
	}
	if *alpn != "" {
		config.NextProtos = strings.Split(*alpn, ",")
	}
	return config
}

func serve(conn halfCloser, config *tls.Config) (done report) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Duration(*seconds) * time.Second))
	var err error
	if *plain {
		err = stream(conn, &done)
	} else if *do != "stream" {
		err = runRaw(conn, config, &done)
	} else {
		secured := tls.Server(conn, config)
		if *listenAt == "" {
			secured = tls.Client(conn, config)
		}
		if err = secured.Handshake(); err == nil {
			describe(secured.ConnectionState(), &done)
			err = stream(secured, &done)
		}
	}
	if err != nil {
		done.Error = err.Error()
	}
	return done
}

func describe(state tls.ConnectionState, done *report) {
	done.Version, done.Cipher = tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite)
	done.Protocol, done.Resumed = state.NegotiatedProtocol, state.DidResume
	if len(state.PeerCertificates) > 0 {
		done.Peer = state.PeerCertificates[0].Subject.CommonName
	}
}

func printReport(done report) {
	line, err := json.Marshal(done)
	check(err)
	fmt.Println(string(line))
}

func main() {
	flag.Parse()
	config := configuration()
	if *listenAt == "" {
		for range *connections {
			conn, err := net.Dial("tcp", *connectTo)
			check(err)
			printReport(serve(conn.(*net.TCPConn), config))
		}
		return
	}
	listener, err := net.Listen("tcp", *listenAt)
	check(err)
	fmt.Println(listener.Addr())
	for {
		conn, err := listener.Accept()
		check(err)
		go func() { printReport(serve(conn.(*net.TCPConn), config)) }()
	}
}
