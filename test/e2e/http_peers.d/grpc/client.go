package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

type client = grpc_testing.TestServiceClient

// The cases of gRPC's interoperability tests that do not need Google accounts. (pick_first_unary is not among them
// either: grpc-go's own server fails it.)
var published = map[string]func(context.Context, client, ...grpc.CallOption){
	"empty_unary":                 interop.DoEmptyUnaryCall,
	"large_unary":                 interop.DoLargeUnaryCall,
	"client_streaming":            interop.DoClientStreaming,
	"server_streaming":            interop.DoServerStreaming,
	"ping_pong":                   interop.DoPingPong,
	"empty_stream":                interop.DoEmptyStream,
	"timeout_on_sleeping_server":  interop.DoTimeoutOnSleepingServer,
	"cancel_after_begin":          interop.DoCancelAfterBegin,
	"cancel_after_first_response": interop.DoCancelAfterFirstResponse,
	"status_code_and_message":     interop.DoStatusCodeAndMessage,
	"special_status_message":      interop.DoSpecialStatusMessage,
	"custom_metadata":             interop.DoCustomMetadata,
}

// Cases with other arguments.
var others = map[string]func(context.Context, *grpc.ClientConn){
	"unimplemented_method":  func(ctx context.Context, conn *grpc.ClientConn) { interop.DoUnimplementedMethod(ctx, conn) },
	"unimplemented_service": unimplementedService,
	"orca_per_rpc":          orcaPerCall,
	"rpc_soak":              soak,
}

var ours = map[string]func(context.Context, client) error{
	"huge": huge, "streams": streams, "crowd": crowd, "idle": idle, "status": printCallStatus, "slow": slow,
	"steady": steady, "held": held, "small": small,
}

func runCases() {
	conn := dial()
	for _, name := range names() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
		caller := grpc_testing.NewTestServiceClient(conn)
		// A published case that fails ends the program with a message.
		if run := published[name]; run != nil {
			run(ctx, caller)
		} else if run := others[name]; run != nil {
			run(ctx, conn)
		} else if run := ours[name]; run != nil {
			if err := run(ctx, caller); err != nil {
				check(fmt.Errorf("%s: %w", name, err))
			}
		} else {
			check(fmt.Errorf("there is no case %q", name))
		}
		cancel()
		fmt.Println(name)
	}
}

func unimplementedService(ctx context.Context, conn *grpc.ClientConn) {
	interop.DoUnimplementedService(ctx, grpc_testing.NewUnimplementedServiceClient(conn))
}

func orcaPerCall(ctx context.Context, _ *grpc.ClientConn) {
	conn := dial(grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}`))
	defer conn.Close()
	interop.DoORCAPerRPCTest(ctx, grpc_testing.NewTestServiceClient(conn))
}

func soak(ctx context.Context, conn *grpc.ClientConn) {
	interop.DoSoakTest(ctx, interop.SoakTestConfig{
		RequestSize: 271828, ResponseSize: 314159, PerIterationMaxAcceptableLatency: 10 * time.Second,
		OverallTimeout: time.Duration(*seconds) * time.Second, ServerAddr: *target, NumWorkers: 4, Iterations: *count,
		ChannelForTest: func() (*grpc.ClientConn, func()) { return conn, func() {} },
	})
}

// ---- Cases of our own

func random(size int) []byte {
	data := make([]byte, size)
	rand.Read(data)
	return data
}

// A message of 20 MiB in each direction. Only the length of the response is checked, since the server sends zeros.
func huge(ctx context.Context, caller client) error {
	const size = 20 << 20
	response, err := caller.UnaryCall(ctx, &grpc_testing.SimpleRequest{ResponseSize: size,
		Payload: &grpc_testing.Payload{Body: random(size)}})
	if err == nil && len(response.Payload.Body) != size {
		err = fmt.Errorf("%d bytes came", len(response.Payload.Body))
	}
	return err
}

type stream = grpc_testing.TestService_FullDuplexCallClient

func rally(stream stream, size int) error {
	if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{
		ResponseParameters: []*grpc_testing.ResponseParameters{{Size: int32(size)}},
		Payload:            &grpc_testing.Payload{Body: random(size)}}); err != nil {
		_, err = stream.Recv() // Recv returns the reason.
		return err
	}
	response, err := stream.Recv()
	if err == nil && len(response.GetPayload().GetBody()) != size {
		err = fmt.Errorf("%d bytes came instead of %d", len(response.GetPayload().GetBody()), size)
	}
	return err
}

func finish(stream stream) error {
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != io.EOF {
		return fmt.Errorf("the end was %v", err)
	}
	return nil
}

// Calls `do` with each number at once, and returns one of the errors.
func atOnce(count int, do func(int) error) error {
	errors := make(chan error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { errors <- do(i) })
	}
	all.Wait()
	close(errors)
	for err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

// Streams that are all open at once, and each of which works.
func streams(ctx context.Context, caller client) error {
	open := make([]stream, *count)
	err := atOnce(*count, func(i int) (err error) {
		if open[i], err = caller.FullDuplexCall(ctx); err != nil {
			return fmt.Errorf("open %d: %w", i, err)
		}
		if err = rally(open[i], 100); err != nil {
			err = fmt.Errorf("first on %d: %w", i, err)
		}
		return err
	})
	if err != nil {
		return err
	}
	// In another order than they were opened in.
	slices.Reverse(open)
	return atOnce(*count, func(i int) error {
		for _, size := range []int{0, 1, 20_000} {
			if err := rally(open[i], size); err != nil {
				return fmt.Errorf("later on %d: %w", i, err)
			}
		}
		return finish(open[i])
	})
}

// Calls that are all made at once, however many streams the server allows.
func crowd(ctx context.Context, caller client) error {
	return atOnce(*count, func(i int) error {
		body := random(1000)
		response, err := caller.UnaryCall(ctx, &grpc_testing.SimpleRequest{ResponseSize: int32(i * 13 % 5000),
			Payload: &grpc_testing.Payload{Body: body}})
		if err == nil && !bytes.Equal(response.Payload.Body, make([]byte, i*13%5000)) {
			err = fmt.Errorf("call %d: %d bytes came", i, len(response.Payload.Body))
		}
		return err
	})
}

// Several callers that make one call after another, and streams among the calls.
func steady(ctx context.Context, caller client) error {
	end := time.Now().Add(*length)
	return atOnce(16, func(i int) error {
		for calls := 0; time.Now().Before(end); calls++ {
			open, err := caller.FullDuplexCall(ctx)
			for range i * 5 {
				if err == nil {
					err = rally(open, 500)
				}
			}
			if err == nil {
				err = finish(open)
			}
			if err == nil {
				_, err = caller.UnaryCall(ctx, &grpc_testing.SimpleRequest{ResponseSize: 100})
			}
			if err != nil {
				return fmt.Errorf("after %d calls: %w", calls, err)
			}
		}
		return nil
	})
}

// Streams of several connections that stay open. Each passes messages in both directions all the time.
func held(ctx context.Context, _ client) error {
	open := make([]stream, *count)
	for i := range *connections {
		conn := dial()
		defer conn.Close()
		for j := i; j < *count; j += *connections {
			stream, err := grpc_testing.NewTestServiceClient(conn).FullDuplexCall(ctx)
			if err == nil {
				err = rally(stream, 10)
			}
			if err != nil {
				return fmt.Errorf("stream %d: %w", j, err)
			}
			open[j] = stream
		}
	}
	fmt.Println("open")
	end := time.Now().Add(*length)
	var messages atomic.Int64
	err := atOnce(*count, func(i int) error {
		for time.Now().Before(end) {
			if err := rally(open[i], i*37%4000); err != nil {
				return fmt.Errorf("stream %d after %d messages of all: %w", i, messages.Load(), err)
			}
			messages.Add(1)
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		}
		return finish(open[i])
	})
	fmt.Println(messages.Load())
	return err
}

// Messages of one byte, as many as the options say, in one direction and then in the other.
func small(ctx context.Context, caller client) error {
	up, err := caller.StreamingInputCall(ctx)
	for i := 0; err == nil && i < *count; i++ {
		err = up.Send(&grpc_testing.StreamingInputCallRequest{Payload: &grpc_testing.Payload{Body: []byte{1}}})
	}
	if err != nil && err != io.EOF {
		return err
	}
	sum, err := up.CloseAndRecv()
	if err != nil {
		return err
	}
	if sum.AggregatedPayloadSize != int32(*count) {
		return fmt.Errorf("%d bytes arrived", sum.AggregatedPayloadSize)
	}
	parameters := make([]*grpc_testing.ResponseParameters, *count)
	for i := range parameters {
		parameters[i] = &grpc_testing.ResponseParameters{Size: 1}
	}
	down, err := caller.StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{ResponseParameters: parameters})
	for i := 0; err == nil && i < *count; i++ {
		if _, err = down.Recv(); err != nil {
			return fmt.Errorf("after %d messages: %w", i, err)
		}
	}
	return err
}

// A stream that is idle for a while, except for pings.
func idle(ctx context.Context, caller client) error {
	open, err := caller.FullDuplexCall(ctx)
	if err == nil {
		err = rally(open, 10)
	}
	if err == nil {
		time.Sleep(*quiet)
		err = rally(open, 10)
	}
	if err == nil {
		err = finish(open)
	}
	return err
}

type outcome struct {
	Code    string
	Message string
	Millis  int64
}

func printStatus(start time.Time, err error) error {
	printJSON(outcome{status.Code(err).String(), status.Convert(err).Message(), time.Since(start).Milliseconds()})
	return nil
}

// Prints how a call ends.
func printCallStatus(ctx context.Context, caller client) error {
	start := time.Now()
	_, err := caller.EmptyCall(ctx, &grpc_testing.Empty{})
	return printStatus(start, err)
}

// A stream whose next message the server delays: prints how it ends.
func slow(ctx context.Context, caller client) error {
	start := time.Now()
	open, err := caller.FullDuplexCall(ctx)
	if err == nil {
		err = rally(open, 10)
	}
	if err == nil {
		fmt.Println("open")
		open.Send(&grpc_testing.StreamingOutputCallRequest{
			ResponseParameters: []*grpc_testing.ResponseParameters{{Size: 1, IntervalUs: 60_000_000}}})
		_, err = open.Recv()
	}
	return printStatus(start, err)
}
