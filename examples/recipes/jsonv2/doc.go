// Package jsonv2 tests IDs under encoding/json/v2: GOEXPERIMENT=jsonv2 go test .
package jsonv2
