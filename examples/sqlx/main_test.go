package main

import (
	"testing"

	"github.com/errandhq/errand/examples/internal/demo/demotest"
)

func TestShop(t *testing.T) { demotest.Run(t, open) }
