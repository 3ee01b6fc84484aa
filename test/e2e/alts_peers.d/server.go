package main

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/alts"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	serviceName = "peers.Peer"
	maxMessage  = 64 << 20
	pieceBytes  = 777
)

// Down returns the request in pieces, Up returns all pieces in one, Both returns each piece.
var peerService = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Down", Handler: down, ServerStreams: true},
		{StreamName: "Up", Handler: up, ClientStreams: true},
		{StreamName: "Both", Handler: both, ServerStreams: true, ClientStreams: true},
	},
}

func runServer() {
	server := grpc.NewServer(grpc.Creds(serverCredentials()), grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage))
	server.RegisterService(&peerService, nil)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	fail(server.Serve(listen()))
}

// The caller's identity, according to ALTS and according to a proxy, and the connection that it uses.
func caller(ctx context.Context) metadata.MD {
	header := metadata.MD{"told": metadata.ValueFromIncomingContext(ctx, "x-who")}
	if from, ok := peer.FromContext(ctx); ok {
		header.Set("from", from.Addr.String())
		if info, err := alts.AuthInfoFromPeer(from); err == nil {
			header.Set("account", info.PeerServiceAccount())
		}
	}
	return header
}

func unary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var value wrapperspb.BytesValue
	if err := decode(&value); err != nil {
		return nil, err
	}
	return &value, grpc.SetHeader(ctx, caller(ctx))
}

func down(_ any, stream grpc.ServerStream) error {
	var value wrapperspb.BytesValue
	if err := stream.RecvMsg(&value); err != nil {
		return err
	}
	for left := value.Value; len(left) > 0; {
		size := min(pieceBytes, len(left))
		if err := stream.SendMsg(wrapperspb.Bytes(left[:size])); err != nil {
			return err
		}
		left = left[size:]
	}
	return nil
}

func up(_ any, stream grpc.ServerStream) error {
	var all []byte
	for {
		var value wrapperspb.BytesValue
		if err := stream.RecvMsg(&value); err == io.EOF {
			return stream.SendMsg(wrapperspb.Bytes(all))
		} else if err != nil {
			return err
		}
		all = append(all, value.Value...)
	}
}

func both(_ any, stream grpc.ServerStream) error {
	for {
		var value wrapperspb.BytesValue
		if err := stream.RecvMsg(&value); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(&value); err != nil {
			return err
		}
	}
}
