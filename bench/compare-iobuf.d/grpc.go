package main

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/mem"
)

var pool = mem.DefaultBufferPool()

// A buffer of `bytes` bytes; its memory has been zeroed. Up to 1 KiB it is not pooled.
func newBuffer(bytes int) mem.Buffer { return mem.NewBuffer(pool.Get(bytes), pool) }

func refsOf(piece mem.Buffer, count int) (chain mem.BufferSlice) {
	for range count {
		piece.Ref()
		chain = append(chain, piece)
	}
	return chain
}

func addGrpc() {
	const grpc = "grpc"
	for bytes := 64; bytes <= 65536; bytes *= 2 {
		add(fmt.Sprintf("get_put/%d", bytes), grpc, 1, func(n int) {
			for range n {
				pool.Put(pool.Get(bytes))
			}
		})
	}
	for _, bytes := range []int{64, 4096, 65536} {
		var held [64]*[]byte
		add(fmt.Sprintf("burst/%d", bytes), grpc, len(held), func(n int) {
			for range n {
				for i := range held {
					held[i] = pool.Get(bytes)
				}
				for i := range held {
					pool.Put(held[i*7%len(held)])
				}
			}
		})
		buffers := make([]mem.Buffer, 1024)
		add(fmt.Sprintf("create_1024/%d", bytes), grpc, len(buffers), func(n int) {
			for range n {
				for i := range buffers {
					buffers[i] = newBuffer(bytes)
				}
				for i := range buffers {
					buffers[i].Free()
				}
			}
		})
	}
	addReturn(grpc, func() mem.Buffer { return newBuffer(pieceBytes) }, mem.Buffer.Free)
	addGrpcSharing(grpc)
	addGrpcMoving(grpc)
	addGrpcCopying(grpc)
}

// A reference has no handle of its own: only the count changes.
func addGrpcSharing(grpc string) {
	for _, row := range []struct {
		name   string
		others int
	}{{"clone_view", 0}, {"clone_shared", 2}} {
		piece := newBuffer(pieceBytes)
		refsOf(piece, row.others)
		add(row.name, grpc, 1, func(n int) {
			for range n {
				piece.Ref()
				piece.Free()
			}
		})
	}
	var buffers [256]mem.Buffer
	for i := range buffers {
		buffers[i] = newBuffer(pieceBytes)
	}
	addTimed("clone_only", grpc, len(buffers), func() {}, func(i int) { buffers[i].Ref() }, func() {
		for _, each := range buffers {
			each.Free()
		}
	})
	for _, length := range []int{1, 3, 16} {
		var chain mem.BufferSlice
		for range length {
			chain = append(chain, newBuffer(pieceBytes))
		}
		add(fmt.Sprintf("clone_buffer/%d", length), grpc, 1, func(n int) {
			for range n {
				chain.Ref()
				chain.Free()
			}
		})
	}
}

func addGrpcMoving(grpc string) {
	piece := newBuffer(pieceBytes)
	for _, length := range []int{1, 3, 16, 1000} {
		appended := refsOf(piece, length-1)
		add(fmt.Sprintf("append/%d", length), grpc, 1, func(n int) {
			for range n {
				piece.Ref()
				appended = append(appended, piece)
				appended[length-1].Free()
				appended = appended[:length-1]
			}
		})
		prepended := refsOf(piece, length-1)
		add(fmt.Sprintf("prepend/%d", length), grpc, 1, func(n int) {
			for range n {
				piece.Ref()
				prepended = slices.Insert(prepended, 0, piece)
				prepended[0].Free()
				prepended = prepended[1:]
			}
		})
		var queue mem.BufferSlice
		for range length - 1 {
			queue = append(queue, newBuffer(pieceBytes))
		}
		add(fmt.Sprintf("queue/%d", length), grpc, 1, func(n int) {
			for range n {
				queue = append(queue, newBuffer(pieceBytes))
				queue[0].Free()
				queue = queue[1:]
			}
		})
	}
	const lineBytes, bufferBytes = 64, 65536
	add("split_front", grpc, bufferBytes/lineBytes, func(n int) {
		for range n {
			rest := newBuffer(bufferBytes)
			var line mem.Buffer
			for range bufferBytes / lineBytes {
				line, rest = mem.SplitUnsafe(rest, lineBytes)
				line.Free()
			}
			rest.Free()
		}
	})
	for _, length := range []int{1, 2, 16, 1000} {
		var first, second [64]mem.BufferSlice
		addTimed(fmt.Sprintf("splice/%d", length), grpc, len(first), func() {
			for i := range first {
				first[i], second[i] = refsOf(piece, length), refsOf(piece, length)
			}
		}, func(i int) { first[i] = append(first[i], second[i]...) }, func() {
			for i := range first {
				first[i].Free()
			}
		})
	}
}

func addGrpcCopying(grpc string) {
	for _, bytes := range []int{64, 1500, 4096} {
		from := make([]byte, bytes)
		add(fmt.Sprintf("append_copy/%d", bytes), grpc, 1, func(n int) {
			for range n {
				mem.Copy(from, pool).Free()
			}
		})
	}
	const pieces = 64
	for _, bytes := range []int{64, 100} {
		from := make([]byte, bytes)
		add(fmt.Sprintf("append_small/%d", bytes), grpc, pieces, func(n int) {
			for range n {
				var chain mem.BufferSlice
				for range pieces {
					chain = append(chain, mem.Copy(from, pool))
				}
				chain.Free()
			}
		})
		piece := newBuffer(pieceBytes).Slice(0, bytes)
		add(fmt.Sprintf("append_packed/%d", bytes), grpc, pieces, func(n int) {
			for range n {
				refsOf(piece, pieces).Free()
			}
		})
	}
	halves := mem.BufferSlice{newBuffer(pieceBytes / 2), newBuffer(pieceBytes / 2)}
	add("pull_up", grpc, 1, func(n int) {
		for range n {
			halves.Ref()
			halves.MaterializeToBuffer(pool).Free()
			halves.Free()
		}
	})
	// A header of 9 bytes is copied in both cases.
	header := make([]byte, 9)
	for across, chain := range []mem.BufferSlice{
		{newBuffer(pieceBytes), newBuffer(pieceBytes)},
		{newBuffer(pieceBytes).Slice(0, 5), newBuffer(pieceBytes)},
	} {
		add(fmt.Sprintf("fetch/%d", across), grpc, 1, func(n int) {
			for range n {
				chain.CopyTo(header)
			}
		})
	}
	fields := mem.BufferSlice{newBuffer(pieceBytes).Slice(0, 5), newBuffer(pieceBytes)}
	add("cursor", grpc, 1, func(n int) {
		var reader mem.Reader
		for range n {
			reader.Reset(fields)
			for range header {
				if _, err := reader.ReadByte(); err != nil {
					panic(err)
				}
			}
		}
		reader.Close()
	})
}
