module sluice.test/tls_peers

go 1.24
