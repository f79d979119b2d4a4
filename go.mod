module github.com/seed-5394e6b1/snowflake

go 1.24.0

require github.com/stretchr/testify v1.12.1

require go.yaml.in/yaml/v3 v3.0.5 // indirect
