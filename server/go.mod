module github.com/seed-5394e6b1/snowflake/server

go 1.26.0

require (
	connectrpc.com/connect v1.20.0
	connectrpc.com/grpchealth v1.4.0
	connectrpc.com/grpcreflect v1.3.0
	github.com/prometheus/client_golang v1.24.1
	github.com/seed-5394e6b1/snowflake v0.1.0
	github.com/seed-5394e6b1/snowflake/metrics v0.1.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/time v0.15.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260414002931-afd174a4e478
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.70.1 // indirect
	github.com/prometheus/procfs v0.21.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace (
	github.com/seed-5394e6b1/snowflake => ..
	github.com/seed-5394e6b1/snowflake/metrics => ../metrics
)
