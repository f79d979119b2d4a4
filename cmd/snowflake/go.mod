module github.com/seed-5394e6b1/snowflake/cmd/snowflake

go 1.23.0

require (
	github.com/seed-5394e6b1/snowflake v0.1.0
	github.com/spf13/cobra v1.10.2
	github.com/stretchr/testify v1.10.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/seed-5394e6b1/snowflake => ../..
