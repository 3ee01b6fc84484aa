// An authorizer by grpc-go and Envoy's Go API. It prints its address, and admits those with the token "good".
package main

import (
	"context"
	"fmt"
	"log"
	"net"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

type authorizer struct {
	auth.UnimplementedAuthorizationServer
}

func header(key, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{Header: &core.HeaderValue{Key: key, Value: value}}
}

func (authorizer) Check(_ context.Context, request *auth.CheckRequest) (*auth.CheckResponse, error) {
	told := request.GetAttributes().GetRequest().GetHttp()
	if told.GetHeaders()["authorization"] == "Bearer good" {
		return &auth.CheckResponse{Status: &status.Status{Code: int32(codes.OK)},
			HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{
				Headers: []*core.HeaderValueOption{header("X-User", "ann")}}}}, nil
	}
	return &auth.CheckResponse{Status: &status.Status{Code: int32(codes.Unauthenticated)},
		HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: &auth.DeniedHttpResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode_Unauthorized},
			Headers: []*core.HeaderValueOption{header("X-Told", told.GetMethod()+" "+told.GetPath())}}}}, nil
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	auth.RegisterAuthorizationServer(server, authorizer{})
	fmt.Println(listener.Addr())
	log.Fatal(server.Serve(listener))
}
