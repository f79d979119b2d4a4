module github.com/seed-5394e6b1/snowflake/gormid

go 1.23.0

replace github.com/seed-5394e6b1/snowflake => ..

require (
	github.com/seed-5394e6b1/snowflake v0.1.0
	gorm.io/gorm v1.25.7
)

require (
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
)
