package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// A request as it arrived.
type seen struct {
	Method, Target, Proto, Host string
	Header, Trailer             http.Header
	ContentLength               int64
	TransferEncoding            []string
	Bytes                       int64
	Hash                        string // SHA-256 of the body.
	Connection                  int64  // The number of its connection, in the order of accepts.
}

type connectionKey struct{}

func serve() {
	secured := *certificate != ""
	var accepted atomic.Int64
	server := &http.Server{
		Handler:   handlers(),
		Protocols: protocols(secured),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: *maxStreams},
		ConnState: afterResponses,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, accepted.Add(1))
		},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr())
	listener = countingListener{listener}
	if secured {
		check(server.ServeTLS(listener, *certificate, *key))
	}
	check(server.Serve(listener))
}

// For each connection: how often it became active, whether it is active, and how many writes it had when it last became
// idle.
type work struct {
	times  int
	now    bool
	writes int64
}

// Counts the writes to a connection.
type countingListener struct{ net.Listener }

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: conn}, nil
}

type countingConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	defer c.writes.Add(1)
	return c.Conn.Write(p)
}

func writesTo(conn net.Conn) int64 {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	return conn.(*countingConn).writes.Load()
}

var (
	works     = map[net.Conn]work{}
	worksLock sync.Mutex
)

// Closes idle connections: at once, or just when the next request may be in flight.
func afterResponses(conn net.Conn, state http.ConnState) {
	worksLock.Lock()
	done := works[conn]
	done.now = state == http.StateActive
	if done.now {
		done.times++
	}
	done.writes = writesTo(conn)
	works[conn] = done
	if state == http.StateClosed {
		delete(works, conn)
	}
	worksLock.Unlock()
	// A connection of HTTP/2 reports to be active once before its first request, and idle before its last frame is sent.
	if state != http.StateIdle || *hangUp == "never" || done.times == 1 && *protocol == "http2" {
		return
	}
	switch how := rand.N(4); {
	case *hangUp == "always" && *protocol == "http1", *hangUp == "sometimes" && *protocol == "http1" && how == 0:
		conn.Close()
	case *hangUp == "always", how < 2:
		time.AfterFunc(time.Millisecond+rand.N(3*time.Millisecond), func() {
			worksLock.Lock()
			defer worksLock.Unlock()
			if found, there := works[conn]; there && !found.now && (*protocol == "http1" || writesTo(conn) > found.writes) {
				conn.Close()
			}
		})
	}
}

func handlers() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { respondJSON(w, look(r)) })
	mux.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 100)) })
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(int(number(r, "code"))) })
	mux.HandleFunc("/hints", hints)
	mux.HandleFunc("/trailers", withTrailers)
	mux.HandleFunc("/refuse", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusExpectationFailed) })
	mux.HandleFunc("/sleep", sleep)
	mux.HandleFunc("/drip", drip)
	mux.HandleFunc("/many", many)
	mux.HandleFunc("/websocket", echoMessages)
	mux.HandleFunc("/report", report)
	if *files != "" {
		mux.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(*files))))
	}
	return mux
}

func number(r *http.Request, name string) int64 {
	value, _ := strconv.ParseInt(r.URL.Query().Get(name), 10, 64)
	return value
}

func look(r *http.Request) seen {
	hash := sha256.New()
	size, _ := io.Copy(hash, r.Body)
	connection, _ := r.Context().Value(connectionKey{}).(int64)
	return seen{r.Method, r.RequestURI, r.Proto, r.Host, r.Header, r.Trailer, r.ContentLength, r.TransferEncoding, size,
		hex.EncodeToString(hash.Sum(nil)), connection}
}

func respondJSON(w http.ResponseWriter, what any) {
	text, err := json.Marshal(what)
	check(err)
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(text, '\n'))
}

func hints(w http.ResponseWriter, _ *http.Request) {
	for i := range 2 {
		w.Header().Set("Link", fmt.Sprintf("</%d.css>; rel=preload", i))
		w.WriteHeader(http.StatusEarlyHints)
	}
	w.Header().Del("Link")
	io.WriteString(w, "hinted")
}

// The trailers of the request become those of the response, plus one that was not announced.
func withTrailers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "X-Announced")
	size, _ := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%d bytes", size)
	w.(http.Flusher).Flush() // Otherwise the response would have a length, and no room for trailers in HTTP/1.1.
	w.Header().Set("X-Announced", "yes")
	for name, values := range r.Trailer {
		w.Header()[http.TrailerPrefix+"Back-"+name] = values
	}
}

func sleep(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(time.Duration(number(r, "ms")) * time.Millisecond):
		io.WriteString(w, "slept")
	case <-r.Context().Done():
		printJSON(map[string]string{"GaveUp": r.RequestURI})
	}
}

func drip(w http.ResponseWriter, r *http.Request) {
	for i := range number(r, "pieces") {
		fmt.Fprintf(w, "piece %d\n", i)
		w.(http.Flusher).Flush()
		time.Sleep(time.Duration(number(r, "ms")) * time.Millisecond)
	}
}

func many(w http.ResponseWriter, r *http.Request) {
	for i := range number(r, "count") {
		w.Header().Set(fmt.Sprintf("X-Many-%d", i), strings.Repeat("v", int(number(r, "bytes"))))
	}
}

// Prints the request's body, which is JSON.
func report(_ http.ResponseWriter, r *http.Request) {
	var what any
	check(json.NewDecoder(r.Body).Decode(&what))
	printJSON(what)
}

func echoMessages(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true,
		CompressionMode: websocket.CompressionContextTakeover})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1)
	for {
		kind, data, err := conn.Read(r.Context())
		if err != nil || conn.Write(r.Context(), kind, data) != nil {
			return
		}
	}
}
