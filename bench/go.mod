module github.com/seed-5394e6b1/snowflake/bench

go 1.26.0

require (
	github.com/GUAIK-ORG/go-snowflake v0.0.0-20200116064823-220c4260e85f
	github.com/bwmarrin/snowflake v0.3.0
	github.com/disgoorg/snowflake/v2 v2.0.3
	github.com/godruoyi/go-snowflake v0.0.1
	github.com/gofrs/uuid/v5 v5.5.1
	github.com/google/uuid v1.6.0
	github.com/muyo/sno v1.2.1
	github.com/oklog/ulid/v2 v2.1.2
	github.com/rs/xid v1.6.0
	github.com/seed-5394e6b1/snowflake v0.1.0
	github.com/segmentio/ksuid v1.0.4
	github.com/sony/sonyflake v1.3.0
	github.com/sony/sonyflake/v2 v2.2.0
	github.com/yitter/idgenerator-go v1.3.3
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

require (
	github.com/golang/glog v1.2.5 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/stretchr/testify v1.12.1
)

replace github.com/seed-5394e6b1/snowflake => ..
