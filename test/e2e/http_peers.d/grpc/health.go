package main

import (
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// Serves grpc.health.v1.Health, in which `service` is SERVING at first and changes its status with each SIGUSR1.
func serveHealth(server *grpc.Server, service string) {
	statuses := []grpc_health_v1.HealthCheckResponse_ServingStatus{
		grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	}
	serving := health.NewServer()
	serving.SetServingStatus(service, statuses[0])
	grpc_health_v1.RegisterHealthServer(server, serving)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for turns := 1; ; turns++ {
			<-signals
			serving.SetServingStatus(service, statuses[turns%len(statuses)])
		}
	}()
}
