package quorum

import _ "github.com/redis/go-redis/v9/maintnotifications" // want
