package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/alts"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What a client saw of its last call.
type clientReport struct {
	Server    string // The server's identity, according to this side's handshake.
	Client    string // The client's identity, according to the server's handshake.
	Forwarded string // The client's identity, according to a field that a proxy added.
	From      string // The client's address, as the server sees it.
}

func runClient() {
	run := map[string]func(context.Context, *grpc.ClientConn) error{"unary": unaryCase, "streaming": streamingCase,
		"large": largeCase, "idle": idleCase, "crowd": crowdCase, "hold": holdCase}
	conn := connect()
	for _, name := range list(*cases) {
		if run[name] == nil {
			fail(fmt.Errorf("there is no case %q", name))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
		if err := run[name](ctx, conn); err != nil {
			fail(fmt.Errorf("%s: %w", name, err))
		}
		seen, err := call(ctx, conn, nil)
		fail(err)
		printJSON(seen)
		cancel()
	}
}

func connect() *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+*target, grpc.WithTransportCredentials(clientCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	fail(err)
	return conn
}

func random(size int) []byte {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	data := make([]byte, size)
	rand.NewChaCha8(seed).Read(data)
	return data
}

// Sends data and expects the same data back.
func call(ctx context.Context, conn *grpc.ClientConn, data []byte) (seen clientReport, err error) {
	var response wrapperspb.BytesValue
	var header metadata.MD
	var server peer.Peer
	err = conn.Invoke(ctx, "/"+serviceName+"/Unary", wrapperspb.Bytes(data), &response, grpc.Header(&header),
		grpc.Peer(&server))
	if err == nil && !bytes.Equal(response.Value, data) {
		err = fmt.Errorf("%d bytes became %d others", len(data), len(response.Value))
	}
	if info, err := alts.AuthInfoFromPeer(&server); err == nil {
		seen.Server = info.PeerServiceAccount()
	}
	for _, value := range header.Get("account") {
		seen.Client = value
	}
	for _, value := range header.Get("told") {
		seen.Forwarded = value
	}
	for _, value := range header.Get("from") {
		seen.From = value
	}
	return
}

func unaryCase(ctx context.Context, conn *grpc.ClientConn) error {
	// Sizes around the limits of frames and of the pieces into which HTTP/2 cuts a message.
	for _, near := range []int{20, 4072, 4096, 16384, 65536, 1 << 20} {
		for size := near - 20; size <= near+20; size += 8 {
			if _, err := call(ctx, conn, random(size)); err != nil {
				return err
			}
		}
	}
	return nil
}

func largeCase(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := call(ctx, conn, random(20<<20))
	return err
}

func idleCase(ctx context.Context, conn *grpc.ClientConn) error {
	before, err := call(ctx, conn, random(1000))
	if err != nil {
		return err
	}
	time.Sleep(*quiet)
	after, err := call(ctx, conn, random(1000))
	if err == nil && after.From != before.From {
		err = errors.New("the connection did not live")
	}
	return err
}

// Makes a call for each line of the standard input, over one connection.
func holdCase(ctx context.Context, conn *grpc.ClientConn) error {
	var first string
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		seen, err := call(ctx, conn, random(1000))
		if err == nil && first != "" && seen.From != first {
			err = errors.New("the connection did not live")
		}
		if err != nil {
			return err
		}
		first = seen.From
		printJSON(seen)
	}
	return nil
}

// Sends data in pieces while it receives, and expects the same data back in pieces of any size.
func streamed(ctx context.Context, conn *grpc.ClientConn, method grpc.StreamDesc, data []byte, size int) error {
	stream, err := conn.NewStream(ctx, &method, "/"+serviceName+"/"+method.StreamName)
	if err != nil {
		return err
	}
	go func() {
		for left := data; len(left) > 0; {
			piece := min(size, len(left))
			if stream.SendMsg(wrapperspb.Bytes(left[:piece])) != nil {
				return // Receiving returns the reason.
			}
			left = left[piece:]
		}
		stream.CloseSend()
	}()
	var all []byte
	for {
		var value wrapperspb.BytesValue
		if err := stream.RecvMsg(&value); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("%s: %w", method.StreamName, err)
		}
		all = append(all, value.Value...)
	}
	if !bytes.Equal(all, data) {
		return fmt.Errorf("%s: %d bytes became %d others", method.StreamName, len(data), len(all))
	}
	return nil
}

// All kinds of streams, several of each at once.
func streamingCase(ctx context.Context, conn *grpc.ClientConn) error {
	data := random(1 << 20)
	var ended []chan error
	for range 3 {
		for _, method := range peerService.Streams {
			size := pieceBytes
			if !method.ClientStreams {
				size = len(data)
			}
			done := make(chan error, 1)
			ended = append(ended, done)
			go func() { done <- streamed(ctx, conn, method, data, size) }()
		}
	}
	var all []error
	for _, done := range ended {
		all = append(all, <-done)
	}
	return errors.Join(all...)
}

// Opens all connections before the first one ends. Each is used twice.
func crowdCase(ctx context.Context, _ *grpc.ClientConn) error {
	var there, gone sync.WaitGroup
	failed := make([]error, *connections)
	from := make([]string, *connections)
	there.Add(*connections)
	for i := range *connections {
		gone.Go(func() {
			conn := connect()
			defer conn.Close()
			seen, err := call(ctx, conn, random(10_000))
			from[i] = seen.From
			there.Done()
			there.Wait()
			if err == nil {
				seen, err = call(ctx, conn, random(10_000))
			}
			if err == nil && seen.From != from[i] {
				err = errors.New("the connection did not live")
			}
			failed[i] = err
		})
	}
	gone.Wait()
	different := map[string]bool{}
	for i, err := range failed {
		if err != nil {
			return err
		}
		different[from[i]] = true
	}
	if len(different) != *connections {
		return fmt.Errorf("%d connections instead of %d", len(different), *connections)
	}
	return nil
}
