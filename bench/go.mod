module github.com/seed-5394e6b1/snowflake/bench

go 1.26.0

require (
	connectrpc.com/connect v1.20.0
	github.com/GUAIK-ORG/go-snowflake v0.0.0-20200116064823-220c4260e85f
	github.com/bwmarrin/snowflake v0.3.0
	github.com/disgoorg/snowflake/v2 v2.0.3
	github.com/go-sql-driver/mysql v1.10.1
	github.com/godruoyi/go-snowflake v0.0.1
	github.com/gofrs/uuid/v5 v5.5.1
	github.com/google/uuid v1.6.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/muyo/sno v1.2.1
	github.com/oklog/ulid/v2 v2.1.2
	github.com/redis/go-redis/v9 v9.22.0
	github.com/rs/xid v1.6.0
	github.com/seed-5394e6b1/snowflake v0.1.0
	github.com/seed-5394e6b1/snowflake/lease/redislease v0.1.0
	github.com/seed-5394e6b1/snowflake/server v0.1.0
	github.com/segmentio/ksuid v1.0.4
	github.com/sony/sonyflake v1.3.0
	github.com/sony/sonyflake/v2 v2.2.0
	github.com/stretchr/testify v1.12.1
	github.com/yitter/idgenerator-go v1.3.3
	golang.org/x/sys v0.47.0
	google.golang.org/grpc v1.82.1
)

require (
	connectrpc.com/grpchealth v1.4.0 // indirect
	connectrpc.com/grpcreflect v1.3.0 // indirect
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/golang/glog v1.2.5 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_golang v1.24.1 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.70.1 // indirect
	github.com/prometheus/procfs v0.21.1 // indirect
	github.com/seed-5394e6b1/snowflake/metrics v0.1.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260414002931-afd174a4e478 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace (
	github.com/seed-5394e6b1/snowflake => ..
	github.com/seed-5394e6b1/snowflake/lease/redislease => ../lease/redislease
	github.com/seed-5394e6b1/snowflake/metrics => ../metrics
	github.com/seed-5394e6b1/snowflake/server => ../server
)
