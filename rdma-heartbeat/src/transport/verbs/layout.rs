//! Declares structs and constants of libibverbs for one-sided writes, as in `infiniband/verbs.h`.
//!
//! The ABI of `libibverbs.so.1` is stable: these have not changed since its version 1.1. Unneeded fields at the end of
//! structs that only the library allocates are omitted. A test compares every size and offset with the installed
//! headers.

#![allow(missing_docs, non_camel_case_types, reason = "names and meaning are those of the manual pages ibv_*(3)")]

use std::ffi::{c_int, c_uint, c_void};

pub const IBV_ACCESS_LOCAL_WRITE: c_int = 1;
pub const IBV_ACCESS_REMOTE_WRITE: c_int = 2;
pub const IBV_MTU_256: c_uint = 1;
pub const IBV_QPT_RC: c_uint = 2;
pub const IBV_QPS_INIT: c_uint = 1;
pub const IBV_QPS_RTR: c_uint = 2;
pub const IBV_QPS_RTS: c_uint = 3;
pub const IBV_QP_STATE: c_int = 1;
pub const IBV_QP_ACCESS_FLAGS: c_int = 1 << 3;
pub const IBV_QP_PKEY_INDEX: c_int = 1 << 4;
pub const IBV_QP_PORT: c_int = 1 << 5;
pub const IBV_QP_AV: c_int = 1 << 7;
pub const IBV_QP_PATH_MTU: c_int = 1 << 8;
pub const IBV_QP_TIMEOUT: c_int = 1 << 9;
pub const IBV_QP_RETRY_CNT: c_int = 1 << 10;
pub const IBV_QP_RNR_RETRY: c_int = 1 << 11;
pub const IBV_QP_RQ_PSN: c_int = 1 << 12;
pub const IBV_QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub const IBV_QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub const IBV_QP_SQ_PSN: c_int = 1 << 16;
pub const IBV_QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub const IBV_QP_DEST_QPN: c_int = 1 << 20;
pub const IBV_SEND_SIGNALED: c_uint = 2;
pub const IBV_SEND_INLINE: c_uint = 8;
pub const IBV_WR_RDMA_WRITE: c_uint = 0;
pub const IBV_WC_SUCCESS: c_uint = 0;
pub const IBV_WC_REM_ACCESS_ERR: c_uint = 10;
pub const IBV_WC_RETRY_EXC_ERR: c_uint = 12;

#[repr(C)]
pub struct ibv_device {
    opaque: [u8; 0],
}

#[repr(C)]
pub struct ibv_pd {
    opaque: [u8; 0],
}

#[repr(C)]
pub struct ibv_cq {
    opaque: [u8; 0],
}

pub type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
pub type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;

#[repr(C)]
pub struct ibv_context_ops {
    before_poll_cq: [*mut c_void; 11],
    pub poll_cq: Option<PollCq>,
    before_post_send: [*mut c_void; 13],
    pub post_send: Option<PostSend>,
}

#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
}

#[repr(C)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

#[repr(C)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut c_void,
    pub handle: u32,
    pub qp_num: u32,
}

#[repr(C)]
#[derive(Default)]
pub struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut c_void,
    pub cap: ibv_qp_cap,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}

#[repr(C, align(8))]
#[derive(Default)]
pub struct ibv_gid {
    pub raw: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

#[repr(C)]
#[derive(Default)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
#[derive(Default)]
pub struct ibv_qp_attr {
    pub qp_state: c_uint,
    pub cur_qp_state: c_uint,
    pub path_mtu: c_uint,
    pub path_mig_state: c_uint,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[repr(C)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// Its unions contain the parts for an RDMA write, and have the size of their largest parts.
#[repr(C)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    pub imm_data: u32,
    pub remote_addr: u64,
    pub rkey: u32,
    pub rest: [u32; 19],
}

#[repr(C)]
#[derive(Default)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: c_uint,
    pub opcode: c_uint,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::mem::{offset_of, size_of};
    use std::process::Command;

    use super::*;

    /// Evaluates expressions in a C program with the installed headers.
    fn ask_the_compiler(expressions: &[&str]) -> Vec<u64> {
        let mut source =
            "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\nint main(void) {\n".to_owned();
        for expression in expressions {
            writeln!(source, "printf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
        }
        source.push_str("return 0; }\n");
        let folder = std::env::temp_dir().join(format!("ringwatch-layout-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, program) = (folder.join("layout.c"), folder.join("layout"));
        std::fs::write(&file, source).unwrap();
        let built = Command::new("cc").arg(&file).arg("-o").arg(&program).output();
        let built = built.expect("this test needs a C compiler: install gcc");
        let output = Command::new(&program).output();
        std::fs::remove_dir_all(&folder).unwrap();
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "this test needs the headers of libibverbs-dev: {errors}");
        let output = output.unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
    }

    macro_rules! layout {
        (whole $($whole:ident)+; $($name:ident { $($field:ident $(= $theirs:literal)?),+ })+; $($constant:ident)+) => {{
            let mut expected: Vec<(String, u64)> = Vec::new();
            $(expected.push((format!("sizeof(struct {})", stringify!($whole)), size_of::<$whole>() as u64));)+
            $($({
                let field = [stringify!($field) $(, $theirs)?];
                let theirs = field.last().unwrap();
                let text = format!("offsetof(struct {}, {theirs})", stringify!($name));
                expected.push((text, offset_of!($name, $field) as u64));
            })+)+
            $(expected.push((stringify!($constant).into(), $constant as u64));)+
            expected
        }};
    }

    #[test]
    fn structs_and_constants_are_those_of_the_installed_headers() {
        let mut expected = layout! {
            whole ibv_qp_cap ibv_qp_init_attr ibv_global_route ibv_ah_attr ibv_qp_attr ibv_sge ibv_send_wr ibv_wc;
            ibv_context { device, ops }
            ibv_context_ops { poll_cq, post_send }
            ibv_mr { addr, length, lkey, rkey }
            ibv_qp { context, qp_num }
            ibv_qp_init_attr { send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
            ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
            ibv_ah_attr { grh, dlid, is_global, port_num }
            ibv_qp_attr {
                qp_state, path_mtu, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index,
                max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, rate_limit
            }
            ibv_sge { addr, length, lkey }
            ibv_send_wr {
                wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, remote_addr = "wr.rdma.remote_addr",
                rkey = "wr.rdma.rkey"
            }
            ibv_wc { wr_id, status, opcode, vendor_err, qp_num, wc_flags, dlid_path_bits };
            IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_MTU_256 IBV_QPT_RC IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS
            IBV_QP_STATE IBV_QP_ACCESS_FLAGS IBV_QP_PKEY_INDEX IBV_QP_PORT IBV_QP_AV IBV_QP_PATH_MTU IBV_QP_TIMEOUT
            IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_RQ_PSN IBV_QP_MAX_QP_RD_ATOMIC IBV_QP_MIN_RNR_TIMER
            IBV_QP_SQ_PSN IBV_QP_MAX_DEST_RD_ATOMIC IBV_QP_DEST_QPN IBV_SEND_SIGNALED IBV_SEND_INLINE
            IBV_WR_RDMA_WRITE IBV_WC_SUCCESS IBV_WC_REM_ACCESS_ERR IBV_WC_RETRY_EXC_ERR
        };
        expected.push(("sizeof(union ibv_gid)".into(), size_of::<ibv_gid>() as u64));
        expected.push(("_Alignof(union ibv_gid)".into(), align_of::<ibv_gid>() as u64));
        let questions: Vec<&str> = expected.iter().map(|(question, _)| question.as_str()).collect();
        let answers = ask_the_compiler(&questions);
        assert_eq!(answers.len(), expected.len());
        for ((question, ours), theirs) in expected.iter().zip(answers) {
            assert_eq!(*ours, theirs, "{question}");
        }
    }
}
