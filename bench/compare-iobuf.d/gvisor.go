package main

import (
	"fmt"

	"gvisor.dev/gvisor/pkg/buffer"
)

// A view of `bytes` bytes; its memory has been zeroed.
func newView(bytes int) *buffer.View { return buffer.NewViewSize(bytes) }

func viewsOf(piece *buffer.View, count int) (chain buffer.Buffer) {
	for range count {
		chain.Append(piece.Clone())
	}
	return chain
}

func addGvisor() {
	const gvisor = "gvisor"
	for bytes := 64; bytes <= 65536; bytes *= 2 {
		add(fmt.Sprintf("get_put/%d", bytes), gvisor, 1, func(n int) {
			for range n {
				buffer.NewView(bytes).Release()
			}
		})
	}
	for _, bytes := range []int{64, 4096, 65536} {
		var held [64]*buffer.View
		add(fmt.Sprintf("burst/%d", bytes), gvisor, len(held), func(n int) {
			for range n {
				for i := range held {
					held[i] = buffer.NewView(bytes)
				}
				for i := range held {
					held[i*7%len(held)].Release()
				}
			}
		})
		buffers := make([]buffer.Buffer, 1024)
		add(fmt.Sprintf("create_1024/%d", bytes), gvisor, len(buffers), func(n int) {
			for range n {
				for i := range buffers {
					buffers[i] = buffer.MakeWithView(newView(bytes))
				}
				for i := range buffers {
					buffers[i].Release()
				}
			}
		})
	}
	addReturn(gvisor, func() *buffer.View { return buffer.NewView(pieceBytes) }, (*buffer.View).Release)
	addGvisorSharing(gvisor)
	addGvisorMoving(gvisor)
	addGvisorCopying(gvisor)
}

func addGvisorSharing(gvisor string) {
	piece := newView(pieceBytes)
	add("clone_view", gvisor, 1, func(n int) {
		for range n {
			piece.Clone().Release()
		}
	})
	shared := newView(pieceBytes)
	_, _ = shared.Clone(), shared.Clone()
	add("clone_shared", gvisor, 1, func(n int) {
		for range n {
			shared.Clone().Release()
		}
	})
	var views, clones [256]*buffer.View
	for i := range views {
		views[i] = newView(pieceBytes)
	}
	addTimed("clone_only", gvisor, len(views), func() {}, func(i int) { clones[i] = views[i].Clone() }, func() {
		for _, clone := range clones {
			clone.Release()
		}
	})
	for _, length := range []int{1, 3, 16} {
		var chain buffer.Buffer
		for range length {
			chain.Append(newView(pieceBytes))
		}
		add(fmt.Sprintf("clone_buffer/%d", length), gvisor, 1, func(n int) {
			for range n {
				clone := chain.Clone()
				clone.Release()
			}
		})
	}
}

func addGvisorMoving(gvisor string) {
	piece := newView(pieceBytes)
	for _, length := range []int{1, 3, 16, 1000} {
		appended := viewsOf(piece, length-1)
		add(fmt.Sprintf("append/%d", length), gvisor, 1, func(n int) {
			rest := appended.Size()
			for range n {
				appended.Append(piece.Clone())
				appended.Truncate(rest)
			}
		})
		prepended := viewsOf(piece, length-1)
		add(fmt.Sprintf("prepend/%d", length), gvisor, 1, func(n int) {
			for range n {
				prepended.Prepend(piece.Clone())
				prepended.TrimFront(pieceBytes)
			}
		})
		var queue buffer.Buffer
		for range length - 1 {
			queue.Append(newView(pieceBytes))
		}
		add(fmt.Sprintf("queue/%d", length), gvisor, 1, func(n int) {
			for range n {
				queue.Append(newView(pieceBytes))
				queue.TrimFront(pieceBytes)
			}
		})
	}
	// It has no split: the line is a truncated clone.
	const lineBytes = 64
	add("split_front", gvisor, buffer.MaxChunkSize/lineBytes, func(n int) {
		for range n {
			chain := buffer.MakeWithView(newView(buffer.MaxChunkSize))
			for chain.Size() >= lineBytes {
				line := chain.Clone()
				line.Truncate(lineBytes)
				chain.TrimFront(lineBytes)
				line.Release()
			}
		}
	})
	for _, length := range []int{1, 2, 16, 1000} {
		var first, second [64]buffer.Buffer
		addTimed(fmt.Sprintf("splice/%d", length), gvisor, len(first), func() {
			for i := range first {
				first[i], second[i] = viewsOf(piece, length), viewsOf(piece, length)
			}
		}, func(i int) { first[i].Merge(&second[i]) }, func() {
			for i := range first {
				first[i].Release()
			}
		})
	}
}

func addGvisorCopying(gvisor string) {
	for _, bytes := range []int{64, 1500, 4096} {
		from := make([]byte, bytes)
		add(fmt.Sprintf("append_copy/%d", bytes), gvisor, 1, func(n int) {
			for range n {
				chain := buffer.MakeWithData(from)
				chain.Release()
			}
		})
	}
	const pieces = 64
	for _, bytes := range []int{64, 100} {
		from := make([]byte, bytes)
		add(fmt.Sprintf("append_small/%d", bytes), gvisor, pieces, func(n int) {
			for range n {
				var chain buffer.Buffer
				for range pieces {
					chain.Append(buffer.NewViewWithData(from))
				}
				chain.Release()
			}
		})
		piece := newView(pieceBytes)
		piece.CapLength(bytes)
		add(fmt.Sprintf("append_packed/%d", bytes), gvisor, pieces, func(n int) {
			for range n {
				var chain buffer.Buffer
				for range pieces {
					chain.Append(piece.Clone())
				}
				chain.Release()
			}
		})
	}
	header := make([]byte, 9)
	body := newView(4064)
	body.TrimFront(64)
	framed := buffer.MakeWithView(body)
	add("prepend_header", gvisor, 1, func(n int) {
		for range n {
			framed.Prepend(buffer.NewViewWithData(header))
			framed.TrimFront(int64(len(header)))
		}
	})
	first, second := newView(pieceBytes/2), newView(pieceBytes/2)
	add("pull_up", gvisor, 1, func(n int) {
		for range n {
			chain := buffer.MakeWithView(first.Clone())
			chain.Append(second.Clone())
			if _, ok := chain.PullUp(0, pieceBytes); !ok {
				panic("not contiguous")
			}
			chain.Release()
		}
	})
	whole := buffer.MakeWithView(newView(pieceBytes))
	add("fetch/0", gvisor, 1, func(n int) {
		for range n {
			if _, ok := whole.PullUp(0, len(header)); !ok {
				panic("not contiguous")
			}
		}
	})
	// PullUp would leave it contiguous for the next round.
	short := newView(64)
	short.TrimFront(59)
	cut := buffer.MakeWithView(short)
	cut.Append(newView(pieceBytes))
	add("fetch/1", gvisor, 1, func(n int) {
		for range n {
			cut.ReadAt(header, 0)
		}
	})
}
