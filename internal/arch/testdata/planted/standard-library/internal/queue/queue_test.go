package queue

import _ "pgregory.net/rapid"
