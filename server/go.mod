module github.com/seed-5394e6b1/snowflake/server

go 1.24.0

require (
	connectrpc.com/connect v1.19.0
	connectrpc.com/grpchealth v1.3.0
	connectrpc.com/grpcreflect v1.2.0
	github.com/prometheus/client_golang v1.19.0
	github.com/seed-5394e6b1/snowflake v0.1.0
	github.com/seed-5394e6b1/snowflake/metrics v0.1.0
	github.com/stretchr/testify v1.10.0
	golang.org/x/time v0.5.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240401170217-c3f982113cda
	google.golang.org/protobuf v1.36.9
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/prometheus/client_model v0.5.0 // indirect
	github.com/prometheus/common v0.48.0 // indirect
	github.com/prometheus/procfs v0.12.0 // indirect
	golang.org/x/sys v0.16.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace (
	github.com/seed-5394e6b1/snowflake => ..
	github.com/seed-5394e6b1/snowflake/metrics => ../metrics
)
