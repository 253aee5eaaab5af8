module github.com/holdfast-go/holdfast/engine/zookeeper

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/holdfast-go/holdfast v0.0.0
)

require (
	github.com/adhocore/gronx v1.20.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/holdfast-go/holdfast => ../..
