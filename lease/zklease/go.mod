module github.com/seed-5394e6b1/snowflake/lease/zklease

go 1.23.0

require (
	github.com/go-zookeeper/zk v1.0.3
	github.com/seed-5394e6b1/snowflake v0.1.0
	github.com/stretchr/testify v1.10.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/seed-5394e6b1/snowflake => ../..
