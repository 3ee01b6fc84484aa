// For a copy of grpc-go's package conn, whose connections are private: its BenchmarkLargeMessage over a TCP connection,
// like record_bench.

package conn

import (
	"io"
	"net"
	"testing"

	core "google.golang.org/grpc/credentials/alts/internal"
)

func BenchmarkLargeMessageBySocket(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer near.Close()
	far, err := listener.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer far.Close()
	secured := func(c net.Conn, side core.Side) net.Conn {
		made, err := NewConn(c, side, rekeyRecordProtocol, make([]byte, 16), nil)
		if err != nil {
			b.Fatal(err)
		}
		return made
	}
	client, server := secured(near, core.ClientSide), secured(far, core.ServerSide)
	message, received := make([]byte, 20<<20), make([]byte, 20<<20)
	b.ResetTimer()
	for range b.N {
		for range 5 {
			// 20 MiB do not fit into a socket.
			written := make(chan error, 1)
			go func() {
				_, err := client.Write(message)
				written <- err
			}()
			if _, err := io.ReadFull(server, received); err != nil {
				b.Fatal(err)
			}
			if err := <-written; err != nil {
				b.Fatal(err)
			}
		}
	}
}
