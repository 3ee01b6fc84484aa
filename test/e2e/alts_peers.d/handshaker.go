package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

const recordProtocol = "ALTSRP_GCM_AES128_REKEY"

// The messages of the two fake handshakes on the wire. The server's first message tells them apart.
const (
	clientInit     = "ClientInit"
	serverInitGo   = "ServerInitServerFinished"
	serverInitCore = "ServerInitAndFinished"
	clientFinished = "ClientFinished"
	refusal        = "Refusal"
)

var spoken = version{2, 1}

// The outcome of a handshake.
type handshakeReport struct {
	Role, Dialect    string
	TargetIdentities []string
	LocalIdentities  []string
	LocalEndpoint    string // address:port/protocol
	RemoteEndpoint   string
	TargetName       string
	MaxFrameSize     uint
	Requests         int
	AtOnce           int64 // How many handshakes were in progress when this one began, including it.
	Result           string
}

type handshake struct {
	report handshakeReport
	held   []byte // Consumed bytes of an incomplete message.
	sent   bool   // The server has sent its message.
	over   bool
}

var underWay atomic.Int64

func runHandshaker() {
	var options []grpc.ServerOption
	if *streams > 0 {
		options = append(options, grpc.MaxConcurrentStreams(uint32(*streams)))
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "grpc.gcp.HandshakerService", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "DoHandshake", Handler: doHandshake, ServerStreams: true,
			ClientStreams: true}}}, nil)
	fail(server.Serve(listen()))
}

func doHandshake(_ any, stream grpc.ServerStream) error {
	h := handshake{report: handshakeReport{Result: "left", AtOnce: underWay.Add(1)}}
	defer func() {
		underWay.Add(-1)
		if !h.over {
			printJSON(h.report)
		}
	}()
	for {
		req, err := receive(stream)
		if err == io.EOF {
			return nil
		} else if err != nil && grpcstatus.Code(err) != codes.Unknown {
			return err // The error of the stream.
		}
		if *lie == "die" {
			os.Exit(1)
		}
		h.report.Requests++
		var resp response
		if err == nil {
			resp, err = h.step(req)
		}
		if err != nil {
			h.report.Result = err.Error()
			return grpcstatus.Error(codes.InvalidArgument, err.Error())
		}
		if *lie == "silent" {
			report := h.report
			report.Result = "silent"
			printJSON(report)
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		time.Sleep(*delay)
		if h.over = resp.Result != nil || resp.Status.Code != 0; h.over {
			if h.report.Result = resp.Status.Details; resp.Result != nil {
				h.report.Result = "done"
			}
			printJSON(h.report)
		}
		if err = send(stream, resp); err != nil {
			return err
		}
		if resp.Status.Code != 0 { // grpc-go looks for a status in the first response only.
			return grpcstatus.Error(codes.Code(resp.Status.Code), resp.Status.Details)
		}
	}
}

func (h *handshake) step(req request) (resp response, err error) {
	if h.over {
		return resp, errors.New("a request after the result")
	}
	if (h.report.Requests == 1) == (req.Next != nil) {
		return resp, errors.New("one start comes first, and then what is next")
	}
	switch {
	case req.ClientStart != nil:
		return h.startClient(req.ClientStart)
	case req.ServerStart != nil:
		return h.startServer(req.ServerStart)
	case req.Next != nil:
		if len(req.Next.InBytes) == 0 {
			return resp, errors.New("nothing is next")
		}
		return h.take(req.Next.InBytes), nil
	}
	return resp, errors.New("an empty request")
}

func (h *handshake) startClient(start *clientStart) (response, error) {
	h.report.Role, h.report.TargetName, h.report.MaxFrameSize = "client", start.TargetName, start.MaxFrameSize
	h.report.TargetIdentities = names(start.TargetIdentities)
	if start.LocalIdentity != nil {
		h.report.LocalIdentities = names([]identity{*start.LocalIdentity})
	}
	h.report.LocalEndpoint, h.report.RemoteEndpoint = text(start.LocalEndpoint), text(start.RemoteEndpoint)
	if start.HandshakeSecurityProtocol != "ALTS" {
		return response{}, fmt.Errorf("handshake_security_protocol is %q", start.HandshakeSecurityProtocol)
	}
	if err := sound(start.ApplicationProtocols, start.RecordProtocols, start.RpcVersions); err != nil {
		return response{}, err
	}
	return h.respond(response{OutFrames: []byte(clientInit)}, 0), nil
}

func (h *handshake) startServer(start *serverStart) (response, error) {
	h.report.Role, h.report.MaxFrameSize = "server", start.MaxFrameSize
	h.report.LocalEndpoint, h.report.RemoteEndpoint = text(start.LocalEndpoint), text(start.RemoteEndpoint)
	parameters, ok := start.HandshakeParameters[2]
	if !ok || len(start.HandshakeParameters) != 1 {
		return response{}, errors.New("handshake_parameters are not those of ALTS")
	}
	h.report.LocalIdentities = names(parameters.LocalIdentities)
	if err := sound(start.ApplicationProtocols, parameters.RecordProtocols, start.RpcVersions); err != nil {
		return response{}, err
	}
	return h.take(start.InBytes), nil
}

func sound(application, record []string, rpc versions) error {
	if !slices.Equal(application, []string{"grpc"}) {
		return fmt.Errorf("application_protocols are %q", application)
	}
	if !slices.Equal(record, []string{recordProtocol}) {
		return fmt.Errorf("record_protocols are %q", record)
	}
	if rpc != (versions{spoken, spoken}) {
		return fmt.Errorf("rpc_versions are %v", rpc)
	}
	return nil
}

// The messages that may come next.
func (h *handshake) expected() []string {
	switch {
	case h.report.Role == "client" && *dialect == "go":
		return []string{serverInitGo}
	case h.report.Role == "client" && *dialect == "core":
		return []string{serverInitCore}
	case h.report.Role == "client":
		return []string{serverInitGo, serverInitCore}
	case h.sent:
		return []string{clientFinished}
	}
	return []string{clientInit}
}

// Continues with bytes from the peer. Bytes after a message are not consumed.
func (h *handshake) take(in []byte) response {
	all := append(slices.Clone(h.held), in...)
	for _, whole := range h.expected() {
		if bytes.HasPrefix(all, []byte(whole)) {
			consumed := len(whole) - len(h.held)
			h.held = nil
			return h.respond(h.reply(whole), consumed)
		}
	}
	for _, whole := range h.expected() {
		if strings.HasPrefix(whole, string(all)) {
			if *keep {
				return h.respond(response{}, 0)
			}
			h.held = all
			return h.respond(response{}, len(in))
		}
	}
	return h.refused(codes.InvalidArgument, fmt.Sprintf("unexpected handshake bytes %.40q", all))
}

func (h *handshake) reply(to string) response {
	switch to {
	case clientInit:
		h.sent = true
		h.report.Dialect = "go"
		if *dialect == "core" {
			h.report.Dialect = "core"
			return response{OutFrames: []byte(serverInitCore)}
		}
		return response{OutFrames: []byte(serverInitGo)}
	case clientFinished:
		return response{Result: h.result(*clientIdentity, *serverIdentity)}
	}
	h.report.Dialect = map[string]string{serverInitGo: "go", serverInitCore: "core"}[to]
	if *check && len(h.report.TargetIdentities) > 0 && !slices.Contains(h.report.TargetIdentities, *serverIdentity) {
		return h.refused(codes.PermissionDenied, *serverIdentity+" is none of the target identities")
	}
	return response{OutFrames: []byte(clientFinished), Result: h.result(*serverIdentity, *clientIdentity)}
}

func (h *handshake) refused(code codes.Code, details string) response {
	return response{OutFrames: []byte(refusal), Status: &status{uint32(code), details}}
}

func (h *handshake) result(peer, local string) *result {
	key, frame := []byte("negotiated-key-data-for-altsrp-gcm-aes128-rekey"), *maxFrameSize
	if h.report.Dialect == "core" {
		key = make([]byte, 1024)
		if frame == 0 {
			frame = 16384
		}
	}
	if *keyBytes > 0 {
		key = append(key, make([]byte, 1024)...)[:*keyBytes]
	}
	made := &result{ApplicationProtocol: "grpc", RecordProtocol: recordProtocol, KeyData: key, MaxFrameSize: frame,
		PeerIdentity: &identity{ServiceAccount: peer}, LocalIdentity: &identity{ServiceAccount: local},
		PeerRpcVersions: versions{spoken, spoken}}
	switch *lie {
	case "short_key":
		made.KeyData = key[:43]
	case "no_result_protocol":
		made.RecordProtocol = ""
	case "no_identity":
		made.PeerIdentity = nil
	case "old_versions":
		made.PeerRpcVersions = versions{version{1, 9}, version{1, 0}}
	}
	return made
}

// Builds the response of the service, and applies the lies that do not concern the result.
func (h *handshake) respond(resp response, consumed int) response {
	resp.BytesConsumed = consumed
	switch {
	case *lie == "status" && h.report.Role != "" && consumed > 0:
		resp = h.refused(codes.PermissionDenied, "the test says no")
	case *lie == "bad_consumed" && consumed > 0:
		resp.BytesConsumed = consumed + 1000
	}
	if resp.Status == nil {
		resp.Status = &status{}
	}
	return resp
}

func names(of []identity) (found []string) {
	for _, one := range of {
		found = append(found, one.ServiceAccount+one.Hostname)
	}
	return
}

func text(of *endpoint) string {
	if of == nil {
		return ""
	}
	return net.JoinHostPort(of.IpAddress, strconv.Itoa(of.Port)) + "/" + of.Protocol
}
