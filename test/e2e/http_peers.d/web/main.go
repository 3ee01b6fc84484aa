// HTTP by Go's net/http for the tests of the proxy: a server, and a client for what curl and nghttp cannot do.
//
//	web server    prints its address, and serves until it is killed
//	web client    prints what it saw as a line of JSON; fails with a message
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
)

var (
	protocol = flag.String("protocol", "http1", "http1 or http2, the only one that is spoken")

	files       = flag.String("files", "", "server: `folder` of what is under /files/")
	certificate = flag.String("certificate", "", "server: PEM `file`; with it TLS is spoken")
	key         = flag.String("key", "", "server: PEM `file`")
	hangUp      = flag.String("hang-up", "never", "server: never, always or sometimes closes a connection when a response is done, without having announced it")
	maxStreams  = flag.Int("max-streams", 250, "server: requests at once on a connection of HTTP/2")

	authorities = flag.String("ca", "", "client: PEM `file` of whom to believe")
	name        = flag.String("name", "localhost", "client: whom to expect")
	method      = flag.String("method", "GET", "client")
	url         = flag.String("url", "", "client")
	body        = flag.String("body", "", "client: what is sent; with trailers, chunked or without a length")
	requests    = flag.Int("requests", 1, "client: so many at once; what is printed is about the last that came")
	headers     list
	trailers    list
)

// An option that may be given several times: `name: value`.
type list []string

func (l *list) String() string { return strings.Join(*l, ", ") }

func (l *list) Set(line string) error {
	if _, _, found := strings.Cut(line, ": "); !found {
		return fmt.Errorf("%q is not `name: value`", line)
	}
	*l = append(*l, line)
	return nil
}

func (l list) header() http.Header {
	header := http.Header{}
	for _, line := range l {
		name, value, _ := strings.Cut(line, ": ")
		header.Add(name, value)
	}
	return header
}

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

func protocols(secured bool) *http.Protocols {
	var spoken http.Protocols
	spoken.SetHTTP1(*protocol == "http1")
	spoken.SetHTTP2(*protocol == "http2" && secured)
	spoken.SetUnencryptedHTTP2(*protocol == "http2" && !secured)
	return &spoken
}

func trust(file string) *tls.Config {
	pem, err := os.ReadFile(file)
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool, ServerName: *name}
}

func main() {
	flag.Var(&headers, "header", "client: `name: value`; may be repeated")
	flag.Var(&trailers, "trailer", "client: `name: value`; may be repeated")
	roles := map[string]func(){"server": serve, "client": sendRequests}
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		check(fmt.Errorf("usage: %s server|client [options]", os.Args[0]))
	}
	check(flag.CommandLine.Parse(os.Args[2:]))
	roles[os.Args[1]]()
}
