package types // want
