package lab

import _ "github.com/holdfast-go/holdfast/lab/model"
