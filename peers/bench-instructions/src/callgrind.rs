//! Tells callgrind where the measured part begins.
//!
//! Callgrind's own entry points count only the calling thread. The crates that make such requests
//! need libclang, for these few instructions.

use std::arch::asm;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("requests to valgrind are written for x86-64 only");

/// A request to callgrind; numbers as in its header.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub enum Request {
    /// Count from here, in all threads.
    Start = 0x4354_0004,
    /// Stop counting.
    Stop = 0x4354_0005,
}

/// Makes a request. Outside valgrind it does nothing.
pub fn request(request: Request) {
    let words = [request as u64, 0, 0, 0, 0, 0];
    // SAFETY: for a processor the rotations add up to nothing and the exchange is of a register
    // with itself. Valgrind recognises the sequence, reads the words and leaves its answer in
    // `rdx`.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") words.as_ptr(),
            inout("rdx") 0u64 => _,
            options(nostack),
        );
    }
}
