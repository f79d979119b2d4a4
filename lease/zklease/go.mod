module github.com/seed-5394e6b1/snowflake/lease/zklease

go 1.26.0

require github.com/seed-5394e6b1/snowflake v0.1.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/seed-5394e6b1/snowflake => ../..
