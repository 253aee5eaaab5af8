package keepalive

import _ "net" // want
