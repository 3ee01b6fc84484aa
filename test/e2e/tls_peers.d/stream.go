package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
)

func randomBytes() *rand.ChaCha8 {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	return rand.NewChaCha8(seed)
}

// Sends and ends, and receives until the peer has ended.
func stream(conn halfCloser, done *report) error {
	ended, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		if *afterEnd {
			<-ended
		}
		failed <- send(conn, done)
	}()
	hash := sha256.New()
	count, err := io.CopyBuffer(hash, struct{ io.Reader }{conn}, make([]byte, 256<<10))
	done.ReceivedBytes, done.ReceivedHash = count, hex.EncodeToString(hash.Sum(nil))
	close(ended)
	if err != nil {
		conn.Close()
		<-failed
		return err
	}
	return <-failed
}

func send(conn halfCloser, done *report) error {
	source, hash, block := randomBytes(), sha256.New(), make([]byte, 64<<10)
	for done.SentBytes < *sendBytes {
		size := int64(len(block))
		if *pieceBytes > 0 {
			size = 1 + rand.Int64N(int64(*pieceBytes))
		}
		piece := block[:min(size, *sendBytes-done.SentBytes)]
		source.Read(piece)
		hash.Write(piece)
		if _, err := conn.Write(piece); err != nil {
			return err
		}
		done.SentBytes += int64(len(piece))
	}
	done.SentHash = hex.EncodeToString(hash.Sum(nil))
	return conn.CloseWrite()
}
