package main

import (
	"encoding/json"
	"errors"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/credentials/alts" // Registers the messages of grpc.gcp.
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// The messages of HandshakerService, converted by way of JSON because grpc-go keeps the types private.
type (
	identity struct {
		ServiceAccount string `json:"serviceAccount,omitempty"`
		Hostname       string `json:"hostname,omitempty"`
	}
	endpoint struct {
		IpAddress string
		Port      int
		Protocol  string
	}
	version struct {
		Major int `json:"major"`
		Minor int `json:"minor"`
	}
	versions struct {
		Max version `json:"maxRpcVersion"`
		Min version `json:"minRpcVersion"`
	}
	clientStart struct {
		HandshakeSecurityProtocol             string
		ApplicationProtocols, RecordProtocols []string
		TargetIdentities                      []identity
		LocalIdentity                         *identity
		LocalEndpoint, RemoteEndpoint         *endpoint
		TargetName                            string
		RpcVersions                           versions
		MaxFrameSize                          uint
	}
	serverStart struct {
		ApplicationProtocols []string
		HandshakeParameters  map[int]struct {
			RecordProtocols []string
			LocalIdentities []identity
		}
		InBytes                       []byte
		LocalEndpoint, RemoteEndpoint *endpoint
		RpcVersions                   versions
		MaxFrameSize                  uint
	}
	next    struct{ InBytes []byte }
	request struct {
		ClientStart *clientStart
		ServerStart *serverStart
		Next        *next
	}
	result struct {
		ApplicationProtocol string    `json:"applicationProtocol,omitempty"`
		RecordProtocol      string    `json:"recordProtocol,omitempty"`
		KeyData             []byte    `json:"keyData,omitempty"`
		PeerIdentity        *identity `json:"peerIdentity,omitempty"`
		LocalIdentity       *identity `json:"localIdentity,omitempty"`
		PeerRpcVersions     versions  `json:"peerRpcVersions"`
		MaxFrameSize        uint      `json:"maxFrameSize,omitempty"`
	}
	status struct {
		Code    uint32 `json:"code"`
		Details string `json:"details,omitempty"`
	}
	response struct {
		OutFrames     []byte  `json:"outFrames,omitempty"`
		BytesConsumed int     `json:"bytesConsumed,omitempty"`
		Result        *result `json:"result,omitempty"`
		Status        *status `json:"status,omitempty"`
	}
)

func message(name protoreflect.FullName) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
	fail(err)
	return kind.New().Interface()
}

func receive(stream grpc.ServerStream) (req request, err error) {
	in := message("grpc.gcp.HandshakerReq")
	if err = stream.RecvMsg(in); err != nil {
		return
	}
	err = protorange.Range(in.ProtoReflect(), func(path protopath.Values) error {
		if at, ok := path.Index(-1).Value.Interface().(protoreflect.Message); ok && len(at.GetUnknown()) > 0 {
			return errors.New("a field that " + string(at.Descriptor().FullName()) + " does not have")
		}
		return nil
	})
	if err != nil {
		return
	}
	text, err := protojson.Marshal(in)
	fail(err)
	return req, json.Unmarshal(text, &req)
}

func send(stream grpc.ServerStream, resp response) error {
	text, err := json.Marshal(resp)
	fail(err)
	out := message("grpc.gcp.HandshakerResp")
	fail(protojson.Unmarshal(text, out))
	return stream.SendMsg(out)
}
