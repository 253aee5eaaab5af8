package holdfast

import _ "github.com/holdfast-go/holdfast/engine/memory"
