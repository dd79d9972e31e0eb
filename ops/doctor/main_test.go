package doctor_test

import (
	"testing"

	"github.com/errandhq/errand/ops/internal/opstest"
)

func TestMain(m *testing.M) { opstest.Main(m) }
