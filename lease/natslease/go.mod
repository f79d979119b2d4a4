module github.com/seed-5394e6b1/snowflake/lease/natslease

go 1.26.0

require (
	github.com/nats-io/nats.go v1.53.1
	github.com/seed-5394e6b1/snowflake v0.1.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

require (
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/stretchr/testify v1.12.1
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/seed-5394e6b1/snowflake => ../..
