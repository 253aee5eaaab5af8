module github.com/holdfast-go/holdfast/engine/mysql

go 1.26.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/holdfast-go/holdfast v0.0.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/adhocore/gronx v1.20.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/holdfast-go/holdfast => ../..
