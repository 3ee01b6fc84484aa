package main

import (
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/alts"
	"google.golang.org/grpc/credentials/insecure"
	_ "unsafe" // For linkname.
)

// grpc-go refuses ALTS unless it runs on a Google machine. It checks this once, when the first credentials are made.
// grpc-go's own tests set this variable, too.
//
//go:linkname vmOnGCP google.golang.org/grpc/credentials/alts.vmOnGCP
var vmOnGCP bool

func clientCredentials() credentials.TransportCredentials {
	if *plain {
		return insecure.NewCredentials()
	}
	made := alts.NewClientCreds(&alts.ClientOptions{
		TargetServiceAccounts: list(*targets), HandshakerServiceAddress: "passthrough:///" + *service})
	vmOnGCP = true
	return made
}

func serverCredentials() credentials.TransportCredentials {
	if *plain {
		return insecure.NewCredentials()
	}
	made := alts.NewServerCreds(&alts.ServerOptions{HandshakerServiceAddress: "passthrough:///" + *service})
	vmOnGCP = true
	return made
}
