package goredis

import (
	_ "github.com/adhocore/gronx" // want
	_ "github.com/redis/go-redis/v9"
	_ "github.com/redis/rueidis" // want
)
