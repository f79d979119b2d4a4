module github.com/seed-5394e6b1/snowflake/lease/redislease

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.22.0
	github.com/seed-5394e6b1/snowflake v0.1.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	github.com/stretchr/testify v1.12.1
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/seed-5394e6b1/snowflake => ../..
