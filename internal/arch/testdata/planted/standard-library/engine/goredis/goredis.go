package goredis

import _ "example.org/uuid"
