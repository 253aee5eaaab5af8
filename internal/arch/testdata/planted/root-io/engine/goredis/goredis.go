package goredis

import _ "net"
