package goredis

import (
	_ "github.com/redis/go-redis/v9"
	_ "github.com/redis/rueidis" // want
)
