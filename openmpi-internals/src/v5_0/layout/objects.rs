//! Objects, lists, processes and groups.

layout! {
    /// An object: all others begin with it.
    mod object: "struct opal_object_t" in "opal/class/opal_object.h" {
        /// Its class.
        OBJ_CLASS: usize = 0, offset "obj_class";
        /// How many owners it has.
        OBJ_REFERENCE_COUNT: usize = 8, offset "obj_reference_count";
        /// Bytes of it.
        SIZE: usize = 16, size;
    }

    /// The class of objects.
    mod class: "struct opal_class_t" in "opal/class/opal_object.h" {
        /// Its constructors, behind the last of which null stands.
        CLS_CONSTRUCT_ARRAY: usize = 40, offset "cls_construct_array";
        /// Its destructors, the same.
        CLS_DESTRUCT_ARRAY: usize = 48, offset "cls_destruct_array";
        /// Bytes of its objects.
        CLS_SIZEOF: usize = 56, offset "cls_sizeof";
    }

    /// A list.
    mod list: "struct opal_list_t" in "opal/class/opal_list.h" {
        /// What stands before its first item, and after its last.
        OPAL_LIST_SENTINEL: usize = 0x10, offset "opal_list_sentinel";
        /// How many items are in it.
        OPAL_LIST_LENGTH: usize = 0x38, offset "opal_list_length";
        /// Bytes of it.
        SIZE: usize = 0x40, size;
    }

    /// An item of a list.
    mod list_item: "struct opal_list_item_t" in "opal/class/opal_list.h" {
        /// The item after it.
        OPAL_LIST_NEXT: usize = 0x10, offset "opal_list_next";
        /// The item before it.
        OPAL_LIST_PREV: usize = 0x18, offset "opal_list_prev";
        /// Bytes of it.
        SIZE: usize = 0x28, size;
    }

    /// The name of a process.
    mod process_name: "opal_process_name_t" in "opal/util/proc.h" {
        /// Its job.
        JOBID: usize = 0, offset "jobid";
        /// Its rank in that.
        VPID: usize = 4, offset "vpid";
        /// Bytes of it.
        SIZE: usize = 8, size;
    }

    /// A process, as the transports know it.
    mod opal_proc: "struct opal_proc_t" in "opal/util/proc.h" {
        /// Its name.
        PROC_NAME: usize = 0x28, offset "proc_name";
    }

    /// A process.
    mod proc: "struct ompi_proc_t" in "ompi/proc/proc.h" {
        /// Its name.
        PROC_NAME: usize = 0x28, offset "super.proc_name";
        /// How near it is.
        PROC_FLAGS: usize = 0x34, offset "super.proc_flags";
        /// The flags of a process on the node of this one.
        OPAL_PROC_ON_NODE: u16 = 0x0c, value "OPAL_PROC_ON_NODE";
        /// Whether it is not known to be dead.
        PROC_ACTIVE: usize = 0x40, offset "proc_active";
        /// Its endpoints, by the kind of transport.
        PROC_ENDPOINTS: usize = 0x48, offset "proc_endpoints";
        /// How many kinds there are at most.
        ENDPOINTS: usize = 4, value "sizeof(((struct ompi_proc_t *) 0)->proc_endpoints) / sizeof(void *)";
        /// Bytes of it.
        SIZE: usize = 0x78, size;
    }

    /// A group.
    mod group: "struct ompi_group_t" in "ompi/group/group.h" {
        /// How many are in it.
        GRP_PROC_COUNT: usize = 0x10, offset "grp_proc_count";
        /// The rank of this process.
        GRP_MY_RANK: usize = 0x14, offset "grp_my_rank";
        /// Its processes, if it is dense.
        GRP_PROC_POINTERS: usize = 0x20, offset "grp_proc_pointers";
        /// Flags.
        GRP_FLAGS: usize = 0x28, offset "grp_flags";
        /// The flag of a group that is a list of its processes.
        OMPI_GROUP_DENSE: u32 = 4, value "OMPI_GROUP_DENSE";
    }
}
