"""Examples of ingot.core: devices, streams, memory, threads, printing and settings."""

import warnings

import ingot.core as mx

# %% Device
print(mx.Device(mx.cpu, 0))
# Device(cpu, 0)

# %% DeviceType
print(mx.cpu == mx.DeviceType.cpu)
# True

# %% default_device
print(mx.default_device())
# Device(cpu, 0)

# %% set_default_device
mx.set_default_device(mx.cpu)
print(mx.default_device())
# Device(cpu, 0)

# %% device_count
print(mx.device_count(mx.cpu))
# 1

# %% device_info
print("architecture" in mx.device_info(mx.cpu))
# True

# %% is_available
print(mx.is_available(mx.cpu))
# True

# %% Stream
print(mx.default_stream(mx.cpu).device)
# Device(cpu, 0)

# %% default_stream
print(mx.default_stream(mx.cpu).device)
# Device(cpu, 0)

# %% set_default_stream
mx.set_default_stream(mx.default_stream(mx.cpu))
print(mx.default_stream(mx.cpu).device)
# Device(cpu, 0)

# %% new_stream
stream = mx.new_stream(mx.cpu)
print(mx.exp(mx.array([0.0]), stream=stream))
# array([1], dtype=float32)

# %% new_thread_local_stream
with mx.stream(mx.new_thread_local_stream(mx.cpu)):
    print(mx.array([1]) + 1)
    # array([2], dtype=int32)

# %% ThreadLocalStream
stream = mx.new_thread_local_stream(mx.cpu)
print(stream.device)
# Device(cpu, 0)

# %% new_thread_unsafe_stream
with mx.stream(mx.new_thread_unsafe_stream(mx.cpu)):
    print(mx.array([1]) + 1)
    # array([2], dtype=int32)

# %% stream
with mx.stream(mx.new_stream(mx.cpu)):
    print(mx.arange(3))
    # array([0, 1, 2], dtype=int32)

# %% StreamContext
with mx.StreamContext(mx.cpu):
    print(mx.arange(3))
    # array([0, 1, 2], dtype=int32)

# %% synchronize
x = mx.arange(3) * 2
mx.async_eval(x)
mx.synchronize()
print(x)
# array([0, 2, 4], dtype=int32)

# %% get_active_memory
before = mx.get_active_memory()
x = mx.ones(1_000_000) * 2
mx.eval(x)
print(mx.get_active_memory() - before >= 4_000_000)
# True

# %% get_peak_memory
mx.reset_peak_memory()
x = mx.ones(1_000_000) * 2
mx.eval(x)
print(mx.get_peak_memory() >= 4_000_000)
# True

# %% reset_peak_memory
mx.reset_peak_memory()
print(mx.get_peak_memory())
# 0

# %% get_cache_memory
mx.clear_cache()
print(mx.get_cache_memory())
# 0

# %% clear_cache
mx.clear_cache()
print(mx.get_cache_memory())
# 0

# %% get_memory_limit
print(mx.get_memory_limit() > 0)
# True

# %% set_memory_limit
before = mx.set_memory_limit(2**30)
print(mx.set_memory_limit(before) == 2**30)
# True

# %% set_cache_limit
before = mx.set_cache_limit(2**20)
print(mx.set_cache_limit(before) == 2**20)
# True

# %% set_wired_limit
print(mx.set_wired_limit(0))
# 0

# %% get_array_buffer_size
x = mx.zeros(1000) + 1
mx.eval(x)
print(mx.get_array_buffer_size(x) >= 4000)
# True

# %% get_num_threads
print(mx.get_num_threads() >= 1)
# True

# %% set_num_threads
before = mx.get_num_threads()
mx.set_num_threads(1)
print(mx.get_num_threads())
# 1
mx.set_num_threads(before)

# %% get_printoptions
print(mx.get_printoptions().precision)
# -1

# %% set_printoptions
before = mx.get_printoptions()
mx.set_printoptions(precision=2)
print(mx.array([3.14159]))
# array([3.14], dtype=float32)
mx.set_printoptions(precision=before.precision)

# %% printoptions
with mx.printoptions(precision=1):
    print(mx.array([3.14159]))
    # array([3.1], dtype=float32)

# %% PrintOptions
with mx.printoptions(precision=3):
    print(mx.array([2.71828]))
    # array([2.718], dtype=float32)

# %% debug_nans
with mx.debug_nans():
    try:
        mx.eval(mx.log(mx.array([-1.0])))
    except FloatingPointError as error:
        print(type(error).__name__)
        # FloatingPointError

# %% set_compile_mode
mx.set_compile_mode("no_fuse")
print(mx.compile(mx.square)(mx.array(3.0)))
# array(9, dtype=float32)
mx.set_compile_mode("enabled")

# %% CompileMode
mx.set_compile_mode(mx.CompileMode.no_simplify)
print(mx.compile(mx.square)(mx.array(3.0)))
# array(9, dtype=float32)
mx.set_compile_mode(mx.CompileMode.enabled)

# %% set_compile_progress
before = mx.set_compile_progress("off")
mx.set_compile_progress(before)

# %% set_deterministic
mx.set_deterministic(True)
print(mx.exp(mx.array([1.0])))
# array([2.71828], dtype=float32)
mx.set_deterministic(False)

# %% set_eager_fusion
mx.set_eager_fusion(False)
print(mx.exp(mx.array([1.0])) * 2)
# array([5.43656], dtype=float32)
mx.set_eager_fusion(True)

# %% eager_fusion_info
print(sorted(mx.eager_fusion_info()))
# ['programs', 'runs', 'structures']

# %% set_excess_precision
mx.set_excess_precision(True)
print(mx.compile(lambda x: (x * 3) / 3)(mx.array([1.1], mx.float16)))
# array([1.09961], dtype=float16)
mx.set_excess_precision(False)

# %% set_product_engine
mx.set_product_engine("blas")
print((mx.ones((2, 3)) @ mx.ones((3, 2))).tolist())
# [[3.0, 3.0], [3.0, 3.0]]
mx.set_product_engine("ingot")

# %% set_quantized_activations
weights = mx.quantize(mx.ones((64, 64)), bits=4)
mx.set_quantized_activations("int8")
print(mx.quantized_matmul(mx.ones((1, 64)), *weights, bits=4)[0, :2])
# array([64, 64], dtype=float32)
mx.set_quantized_activations("float32")

# %% RecompilationWarning
warnings.filterwarnings("error", category=mx.RecompilationWarning)  # in tests, say

# %% UndeclaredStateWarning
warnings.filterwarnings("error", category=mx.UndeclaredStateWarning)

# %% clear_streams
mx.clear_streams()
print(mx.arange(2))
# array([0, 1], dtype=int32)
