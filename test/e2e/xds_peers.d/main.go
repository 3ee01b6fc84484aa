// A control plane on Envoy's go-control-plane: its snapshot cache and its server, by state of the world and incremental. It serves
// the resources of a file, {"version": "1", "resources": [proto3 JSON with @type]}, to the node `node-1`, and reads the file again
// when it changes. It prints its address, then a line of JSON for each ACK and NACK. It takes load reports of all clusters, too, and
// prints a line for each cluster of each report.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"sync"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loads "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

const node = "node-1"

// Answers to responses, which are known by stream and nonce.
type answers struct {
	lock     sync.Mutex
	versions map[string]string
}

func (a *answers) sent(stream int64, nonce, version string) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.versions[fmt.Sprint(stream, nonce)] = version
}

func (a *answers) received(stream int64, kind, nonce string, failure *status.Status) {
	a.lock.Lock()
	defer a.lock.Unlock()
	key := fmt.Sprint(stream, nonce)
	version, known := a.versions[key]
	if !known {
		return // The first request, or one for other names.
	}
	delete(a.versions, key)
	line := map[string]any{"type": kind, "version": version, "error": nil}
	if failure != nil {
		line["error"] = failure.GetMessage()
	}
	text, err := json.Marshal(line)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

type loadService struct {
	loads.UnimplementedLoadReportingServiceServer
}

func (loadService) StreamLoadStats(stream loads.LoadReportingService_StreamLoadStatsServer) error {
	for first := true; ; first = false {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if first {
			wish := &loads.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(200 * time.Millisecond)}
			if err := stream.Send(wish); err != nil {
				return err
			}
		}
		for _, cluster := range request.GetClusterStats() {
			var succeeded, failed, issued uint64
			for _, locality := range cluster.GetUpstreamLocalityStats() {
				succeeded += locality.GetTotalSuccessfulRequests()
				failed += locality.GetTotalErrorRequests()
				issued += locality.GetTotalIssuedRequests()
			}
			text, err := json.Marshal(map[string]any{
				"cluster": cluster.GetClusterName(), "succeeded": succeeded, "failed": failed, "issued": issued})
			if err != nil {
				return err
			}
			fmt.Println(string(text))
		}
	}
}

func snapshot(path string) (*cache.Snapshot, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Version   string
		Resources []json.RawMessage
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	made := map[resource.Type][]types.Resource{}
	for _, text := range file.Resources {
		var any anypb.Any
		if err := protojson.Unmarshal(text, &any); err != nil {
			return nil, err
		}
		message, err := any.UnmarshalNew()
		if err != nil {
			return nil, err
		}
		made[any.GetTypeUrl()] = append(made[any.GetTypeUrl()], message)
	}
	return cache.NewSnapshot(file.Version, made)
}

func main() {
	path := flag.String("resources", "", "file of resources")
	address := flag.String("address", "127.0.0.1:0", "address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	snapshots := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	told := &answers{versions: map[string]string{}}
	callbacks := server.CallbackFuncs{
		StreamResponseFunc: func(_ context.Context, id int64, _ *discovery.DiscoveryRequest, response *discovery.DiscoveryResponse) {
			told.sent(id, response.GetNonce(), response.GetVersionInfo())
		},
		StreamRequestFunc: func(id int64, request *discovery.DiscoveryRequest) error {
			told.received(id, request.GetTypeUrl(), request.GetResponseNonce(), request.GetErrorDetail())
			return nil
		},
		StreamDeltaResponseFunc: func(id int64, _ *discovery.DeltaDiscoveryRequest, response *discovery.DeltaDiscoveryResponse) {
			told.sent(id, response.GetNonce(), response.GetSystemVersionInfo())
		},
		StreamDeltaRequestFunc: func(id int64, request *discovery.DeltaDiscoveryRequest) error {
			told.received(id, request.GetTypeUrl(), request.GetResponseNonce(), request.GetErrorDetail())
			return nil
		},
	}
	services := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(services, server.NewServer(context.Background(), snapshots, callbacks))
	loads.RegisterLoadReportingServiceServer(services, loadService{})
	go func() {
		var read os.FileInfo
		for ; ; time.Sleep(20 * time.Millisecond) {
			now, err := os.Stat(*path)
			if err != nil || (read != nil && os.SameFile(now, read) && now.ModTime().Equal(read.ModTime())) {
				continue // A change is a new file in the place of the old one. The number of a file comes again.
			}
			made, err := snapshot(*path)
			if err == nil {
				err = snapshots.SetSnapshot(context.Background(), node, made)
			}
			if err != nil {
				log.Fatal(err)
			}
			read = now
		}
	}()
	fmt.Println(listener.Addr())
	log.Fatal(services.Serve(listener))
}
